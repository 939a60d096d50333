//! Checks the create-token request that a transform builds from a message.

use scrip_expression::is_expression;
use serde_json::Value;

use super::TransformError;

/// The vault does not evaluate these attributes.
const PLAIN_ATTRIBUTES: [&str; 2] = ["data", "metadata"];

const EXPRESSION_RULE: &str =
    "cannot be applied: only data and metadata can take a value with an expression from a message";

/// The owner of the proxy writes the expressions of a new token. A message must not: an id or an
/// index that reads the data would be evaluated with the rights of the proxy's application.
pub(super) fn check_expressions(template: &Value, token: &Value) -> Result<(), TransformError> {
    let (Value::Object(template), Value::Object(token)) = (template, token) else { return Ok(()) };
    for (name, value) in token {
        let source = template.get(name).unwrap_or(&Value::Null);
        if !PLAIN_ATTRIBUTES.contains(&name.as_str()) && has_new_expression(source, value) {
            return Err(TransformError::Rule(EXPRESSION_RULE));
        }
    }
    Ok(())
}

/// Whether a text has an expression and is not the text of the template.
fn has_new_expression(source: &Value, value: &Value) -> bool {
    match value {
        Value::String(text) => is_expression(text) && source != value,
        Value::Array(items) => {
            let source = |index: usize| source.get(index).unwrap_or(&Value::Null);
            items.iter().enumerate().any(|(index, it)| has_new_expression(source(index), it))
        }
        Value::Object(object) => {
            let source = |name: &str| source.get(name).unwrap_or(&Value::Null);
            object
                .iter()
                .any(|(name, it)| is_expression(name) || has_new_expression(source(name), it))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
