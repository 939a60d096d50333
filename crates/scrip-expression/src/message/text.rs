//! Texts and JSON with expressions.

use serde_json::Value;

use super::{
    evaluation::MessageInputs,
    expression::{ExpressionPlace, MessageExpression, MessagePart},
    reader,
};
use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, OUTPUT_BYTES_MAX, PathStep, Scope,
    evaluation::evaluate::BoundedText,
    json_tree::{JsonTree, root_error},
    value::datum::to_text,
};

/// A text with its expressions compiled.
#[derive(Debug, Clone)]
pub struct MessageText(pub(super) Vec<MessagePart>);

impl MessageText {
    /// Errors: the text contains an invalid expression.
    pub fn parse(source: &str, place: ExpressionPlace) -> Result<Self, ExpressionError> {
        reader::read_text(source, place).map(Self)
    }

    /// Reads a single expression at the start of a longer text. Returns its length with the braces.
    /// Errors: the expression is invalid. The position is relative to `source`.
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

    pub fn parts(&self) -> &[MessagePart] {
        &self.0
    }

    /// The expression, if the text is a single one. It then takes the type of its value.
    pub fn single_expression(&self) -> Option<&MessageExpression> {
        match self.0.as_slice() {
            [MessagePart::Expression(expression)] => Some(expression),
            _ => None,
        }
    }

    pub fn has_expressions(&self) -> bool {
        self.0.iter().any(|it| matches!(it, MessagePart::Expression(_)))
    }

    /// Whether an expression can read this path of the objects, or a part of it.
    pub fn can_read(&self, path: &[&str]) -> bool {
        self.0.iter().any(|part| match part {
            MessagePart::Text(_) => false,
            MessagePart::Expression(expression) => expression.can_read(path),
        })
    }

    /// The value of a single expression, or the rendered text.
    /// Errors: as [`MessageExpression::evaluate`].
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
pub struct MessageTemplate(pub(super) JsonTree<MessageText>);

impl MessageTemplate {
    /// Errors: a text contains an invalid expression, or the JSON is nested too deep.
    pub fn parse(source: &Value, place: ExpressionPlace) -> Result<Self, LeafError> {
        let mut leaf = |text: &str| text.contains("{{").then(|| MessageText::parse(text, place));
        JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX).map(Self)
    }

    /// Whether an expression can read this path of the objects, or a part of it.
    pub fn can_read(&self, path: &[&str]) -> bool {
        self.0.any(|it| it.can_read(path))
    }

    /// The texts with expressions, each with its path in the JSON.
    pub fn leaves(&self) -> Vec<(Vec<PathStep>, &MessageText)> {
        let mut leaves = Vec::new();
        self.0.collect_leaves(&mut Vec::new(), &mut leaves);
        leaves
    }

    /// Errors: as [`MessageExpression::evaluate`].
    pub fn evaluate(
        &self,
        inputs: &MessageInputs<'_>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        self.0.evaluate(&scope.budget, &|it| it.evaluate(inputs, scope))
    }
}
