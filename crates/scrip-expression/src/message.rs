//! Expressions in the messages that a proxy forwards.
//!
//! ```text
//! body       {{ <id> }}  {{ token: <id> }}  {{ token_intent: <id> }}  {{ config: <name> }}
//! header     {{ proxy.request.headers.<Name> }}  {{ proxy.request.body }}  {{ config: <name> }}
//! transform  {{ req.… }}  {{ res.… }}  {{ transform_identifier: '<name>' }}  {{ config: <name> }}
//! ```
//! All forms can have filters. There are no tags.

mod counted_size;
mod reader;
mod selection;
mod value_reads;

use serde_json::Value;

pub use self::{
    counted_size::CountedSize,
    selection::FilteredPath,
    value_reads::{MessageRead, ReadStep},
};

use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, OUTPUT_BYTES_MAX, PathStep, Reference,
    ReferenceKind, Scope,
    evaluation::evaluate::{BoundedText, Evaluator},
    filter::PlainStep,
    inner_steps::count,
    json_tree::{JsonTree, root_error},
    syntax::ast::{Call, Operand, Step},
    value::datum::{Datum, to_text},
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
pub struct MessageObject(Operand);

impl std::fmt::Debug for MessageObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageObject")
    }
}

/// One compiled `{{ }}`.
#[derive(Clone)]
pub struct MessageExpression {
    position: usize,
    source: MessageSource,
    calls: Vec<Call>,
}

/// Prints no content, because literals may be secret, such as the key of an `hmac`.
impl std::fmt::Debug for MessageExpression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MessageExpression({} filters)", self.calls.len())
    }
}

/// Finds the tokens and token intents that expressions name.
pub trait ResolveReference {
    fn resolve(&self, reference: &Reference) -> Option<&Value>;
}

/// For messages without references.
#[derive(Debug, Clone, Copy)]
pub struct NoReferences;

impl ResolveReference for NoReferences {
    fn resolve(&self, _: &Reference) -> Option<&Value> {
        None
    }
}

/// The values that expressions can name.
#[derive(Clone, Copy)]
pub struct MessageInputs<'v> {
    pub references: &'v dyn ResolveReference,
    /// An object of texts.
    pub configuration: &'v Value,
    /// An object: the tokens that earlier transforms created, by identifier.
    pub identifiers: &'v Value,
    /// An object: `proxy` and `config` for headers; `req`, `res` and `config` for transforms.
    pub objects: &'v Value,
}

impl std::fmt::Debug for MessageInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageInputs")
    }
}

/// The value of an expression. An owned value may be a secret: wipe it.
pub enum EvaluatedMessage<'v> {
    Borrowed(&'v Value),
    Owned(Value),
}

impl std::fmt::Debug for EvaluatedMessage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EvaluatedMessage")
    }
}

impl MessageExpression {
    /// Reads an expression after its opening braces. Returns its length up to the end of the
    /// closing braces, and no expression if it is not for this place. The position of an error is
    /// relative to `inner`.
    ///
    /// # Errors
    /// The expression is invalid.
    pub fn read(
        inner: &str,
        place: ExpressionPlace,
    ) -> Result<(Option<Self>, usize), ExpressionError> {
        let result = reader::read_expression(inner, place);
        result.map_err(|(byte, problem)| ExpressionError::at(inner, byte, problem))
    }

    #[must_use]
    pub fn source(&self) -> &MessageSource {
        &self.source
    }

    /// The same expression, for errors that name a position in a longer text.
    #[must_use]
    pub fn with_position(self, position: usize) -> Self {
        Self { position, ..self }
    }

    /// The position in its text, for errors.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether the result can depend on the CVC of the referenced token: the expression takes all
    /// data of the token, or a part that can contain the CVC.
    #[must_use]
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

    fn can_read(&self, path: &[&str]) -> bool {
        self.operands().any(|operand| operand_can_read(operand, path))
    }

    /// The path that the expression begins with, and the arguments of its filters.
    fn operands(&self) -> impl Iterator<Item = &Operand> {
        let source = match &self.source {
            MessageSource::Object(MessageObject(operand)) => Some(operand),
            MessageSource::Reference(_)
            | MessageSource::Configuration(_)
            | MessageSource::Identifier(_) => None,
        };
        source.into_iter().chain(self.calls.iter().flat_map(|it| &it.arguments))
    }

    /// # Errors
    /// The source does not exist, a filter rejects its value, or a limit is exceeded.
    pub fn evaluate<'v>(
        &'v self,
        inputs: &MessageInputs<'v>,
        scope: &'v Scope<'_>,
    ) -> Result<EvaluatedMessage<'v>, ExpressionError> {
        let fail = |problem| ExpressionError { position: self.position, problem };
        let value = self.evaluate_source(inputs, scope).map_err(fail)?;
        let evaluator = Evaluator::new(scope, inputs.objects, 0);
        let value = evaluator.apply_calls(value, &self.calls).map_err(fail)?;
        scope.budget.charge_value(&value).map_err(fail)?;
        if let Datum::Borrowed(value) = value {
            return Ok(EvaluatedMessage::Borrowed(value));
        }
        Ok(EvaluatedMessage::Owned(value.into_value()))
    }

    fn evaluate_source<'v>(
        &'v self,
        inputs: &MessageInputs<'v>,
        scope: &'v Scope<'_>,
    ) -> Result<Datum<'v>, &'static str> {
        scope.budget.charge_steps(1)?;
        count(1);
        let property = |object: &'v Value, name: &str| {
            scope.budget.charge_bytes(name.len())?;
            count(name.len());
            Ok::<_, &'static str>(object.get(name))
        };
        let value = match &self.source {
            MessageSource::Reference(reference) => {
                inputs.references.resolve(reference).ok_or(UNKNOWN_REFERENCE)?
            }
            MessageSource::Configuration(name) => property(inputs.configuration, name)?
                .ok_or("the configuration of the proxy has no value of this name")?,
            MessageSource::Identifier(name) => property(inputs.identifiers, name)?
                .ok_or("no earlier transform has this identifier")?,
            MessageSource::Object(MessageObject(operand)) => {
                check_object_exists(operand, inputs.objects)?;
                return Evaluator::new(scope, inputs.objects, 0).evaluate_operand(operand);
            }
        };
        Ok(Datum::Borrowed(value))
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

/// The problem of an expression with a reference that cannot be resolved.
pub const UNKNOWN_REFERENCE: &str = "no token has this id";

/// A missing object is an error, unlike a missing property: `encrypted` must not become null when
/// the request has no encrypted data.
fn check_object_exists(operand: &Operand, objects: &Value) -> Result<(), &'static str> {
    let Operand::Path(path) = operand else { return Ok(()) };
    match path.steps.first() {
        Some(Step::Name(name)) if objects.get(name).is_none() => {
            Err("this object is not available here")
        }
        _ => Ok(()),
    }
}

impl EvaluatedMessage<'_> {
    #[must_use]
    pub fn value(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Borrowed(value) => value.clone(),
            Self::Owned(value) => value,
        }
    }
}

/// Text between expressions, or an expression.
#[derive(Debug, Clone)]
pub enum MessagePart {
    Text(String),
    Expression(MessageExpression),
}

/// A text with its expressions compiled.
#[derive(Debug, Clone)]
pub struct MessageText(Vec<MessagePart>);

impl MessageText {
    /// # Errors
    /// The text contains an invalid expression.
    pub fn parse(source: &str, place: ExpressionPlace) -> Result<Self, ExpressionError> {
        reader::read_text(source, place).map(Self)
    }

    /// Reads a single expression at the start of a longer text. Returns its length with the braces.
    ///
    /// # Errors
    /// The expression is invalid. The position is relative to `source`.
    pub fn read_expression(
        source: &str,
        place: ExpressionPlace,
    ) -> Result<(Self, usize), ExpressionError> {
        const BRACES: usize = 2;
        let inner = source.get(BRACES..).unwrap_or_default();
        let (expression, length) = MessageExpression::read(inner, place).map_err(|error| {
            ExpressionError { position: error.position.saturating_add(BRACES), ..error }
        })?;
        let length = length.saturating_add(BRACES);
        let part = match expression {
            Some(expression) => MessagePart::Expression(expression),
            None => MessagePart::Text(source.get(..length).unwrap_or(source).to_owned()),
        };
        Ok((Self(vec![part]), length))
    }

    #[must_use]
    pub fn parts(&self) -> &[MessagePart] {
        &self.0
    }

    /// The expression, if the text is a single one. It then takes the type of its value.
    #[must_use]
    pub fn single_expression(&self) -> Option<&MessageExpression> {
        match self.0.as_slice() {
            [MessagePart::Expression(expression)] => Some(expression),
            _ => None,
        }
    }

    #[must_use]
    pub fn has_expressions(&self) -> bool {
        self.0.iter().any(|it| matches!(it, MessagePart::Expression(_)))
    }

    /// Whether an expression can read this path of the objects, or a part of it.
    #[must_use]
    pub fn can_read(&self, path: &[&str]) -> bool {
        self.0.iter().any(|part| match part {
            MessagePart::Text(_) => false,
            MessagePart::Expression(expression) => expression.can_read(path),
        })
    }

    /// The value of a single expression, or the rendered text.
    ///
    /// # Errors
    /// As [`MessageExpression::evaluate`].
    pub fn evaluate(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<Value, ExpressionError> {
        if let Some(expression) = self.single_expression() {
            return Ok(expression.evaluate(inputs, scope)?.into_value());
        }
        let mut rendered = BoundedText { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        for part in &self.0 {
            match part {
                MessagePart::Text(text) => {
                    rendered.bytes_max = rendered.bytes_max.saturating_add(text.len());
                    rendered.push(text, &scope.budget).map_err(root_error)?;
                }
                MessagePart::Expression(expression) => {
                    let position = expression.position;
                    let value = expression.evaluate(inputs, scope)?;
                    let pushed = rendered.push(&to_text(value.value()), &scope.budget);
                    pushed.map_err(|problem| ExpressionError { position, problem })?;
                }
            }
        }
        Ok(Value::String(rendered.text))
    }
}

/// JSON with the expressions of its texts compiled.
#[derive(Debug, Clone)]
pub struct MessageTemplate(JsonTree<MessageText>);

impl MessageTemplate {
    /// # Errors
    /// A text contains an invalid expression, or the JSON is nested too deep.
    pub fn parse(source: &Value, place: ExpressionPlace) -> Result<Self, LeafError> {
        let mut leaf = |text: &str| text.contains("{{").then(|| MessageText::parse(text, place));
        JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX).map(Self)
    }

    /// Whether an expression can read this path of the objects, or a part of it.
    #[must_use]
    pub fn can_read(&self, path: &[&str]) -> bool {
        self.0.any(|it| it.can_read(path))
    }

    /// The texts with expressions, each with its path in the JSON.
    #[must_use]
    pub fn leaves(&self) -> Vec<(Vec<PathStep>, &MessageText)> {
        let mut leaves = Vec::new();
        self.0.collect_leaves(&mut Vec::new(), &mut leaves);
        leaves
    }

    /// # Errors
    /// As [`MessageExpression::evaluate`].
    pub fn evaluate(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        self.0.evaluate(&scope.budget, &|it| it.evaluate(inputs, scope))
    }
}
