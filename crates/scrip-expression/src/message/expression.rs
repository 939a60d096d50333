//! A compiled expression of a message, and what it can read.

use crate::{
    Reference, ReferenceKind,
    filter::PlainStep,
    syntax::ast::{Call, Operand, Step},
};

/// The part of a message that contains an expression. It decides what an expression can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpressionPlace {
    Body,
    Header,
    /// A value in the settings of a transform. Expressions that name neither a message nor an
    /// identifier stay as they are: they are for the vault, such as the mask of a new token.
    Transform,
}

/// The value that an expression begins with.
#[derive(Debug, Clone)]
pub enum MessageSource {
    Reference(Reference),
    /// A value of the proxy's configuration.
    Configuration(String),
    /// The token that a transform with this identifier created.
    Identifier(String),
    /// A path into one of the objects of the place.
    Object(MessageObject),
}

/// A path into an object such as `proxy` or `res`.
#[derive(Clone)]
pub struct MessageObject(pub(super) Operand);

impl std::fmt::Debug for MessageObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageObject")
    }
}

/// One compiled `{{ }}`.
#[derive(Clone)]
pub struct MessageExpression {
    pub(super) position: usize,
    pub(super) source: MessageSource,
    pub(super) calls: Vec<Call>,
}

/// Prints no content, because literals may be secret, such as the key of an `hmac`.
impl std::fmt::Debug for MessageExpression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageExpression({} filters)", self.calls.len())
    }
}

/// Text between expressions, or an expression.
#[derive(Debug, Clone)]
pub enum MessagePart {
    Text(String),
    Expression(MessageExpression),
}

impl MessageExpression {
    pub fn source(&self) -> &MessageSource {
        &self.source
    }

    /// The same expression, for errors that name a position in a longer text.
    #[must_use]
    pub fn with_position(self, position: usize) -> Self {
        Self { position, ..self }
    }

    /// The position in its text, for errors.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether the result can depend on the CVC of the referenced token: the expression takes all
    /// data of the token, or a part that can contain the CVC.
    pub fn can_read_cvc(&self) -> bool {
        let MessageSource::Reference(reference) = &self.source else { return false };
        let mut path = Vec::new();
        let mut calls = self.calls.iter();
        let next_filter = loop {
            let Some(call) = calls.next() else { break None };
            match call.query.as_ref().and_then(|it| it.plain_path()) {
                Some(plain_path) => path.extend(plain_path.steps()),
                None => break Some(call.filter.name),
            }
        };
        let is_name = |step: &PlainStep, name: &str| *step == PlainStep::Name(name.to_owned());
        let path_in_data = match (reference.kind, path.as_slice()) {
            (ReferenceKind::Data, path) => path,
            (ReferenceKind::Token | ReferenceKind::TokenIntent, []) => &[],
            (ReferenceKind::Token | ReferenceKind::TokenIntent, [first, path_in_data @ ..]) => {
                if !is_name(first, "data") {
                    return false;
                }
                path_in_data
            }
        };
        match path_in_data {
            // This filter reads the expiration date only.
            [] => next_filter != Some("card_exp"),
            [first, ..] => is_name(first, "cvc"),
        }
    }

    pub(super) fn can_read(&self, path: &[&str]) -> bool {
        self.operands().any(|operand| operand_can_read(operand, path))
    }

    /// The path that the expression begins with, and the arguments of its filters.
    pub(super) fn operands(&self) -> impl Iterator<Item = &Operand> {
        let source = match &self.source {
            MessageSource::Object(MessageObject(operand)) => Some(operand),
            MessageSource::Reference(_)
            | MessageSource::Configuration(_)
            | MessageSource::Identifier(_) => None,
        };
        source.into_iter().chain(self.calls.iter().flat_map(|it| &it.arguments))
    }
}

/// Whether an operand, or one that computes a step of it, can read this path.
fn operand_can_read(operand: &Operand, path: &[&str]) -> bool {
    match operand {
        Operand::Path(operand_path) => {
            // A computed step may be any name.
            let is_same = |(step, name): (&Step, &&str)| match step {
                Step::Name(step) => step == name,
                Step::Index(_) => false,
                Step::Computed(_) => true,
            };
            let is_read_by_step = |step: &Step| match step {
                Step::Computed(inner) => operand_can_read(inner, path),
                Step::Name(_) | Step::Index(_) => false,
            };
            operand_path.steps.iter().zip(path).all(is_same)
                || operand_path.steps.iter().any(is_read_by_step)
        }
        Operand::Literal(_) | Operand::Empty | Operand::Blank | Operand::Loop(_) => false,
        Operand::Range(_) => true,
    }
}
