//! The create-token request that a transform builds from a message.

use scrip_core::{
    Error,
    policy::proxy::{
        ProxyTransform,
        transform::{TemplateObject, TransformTemplate, template::TemplatePlace},
    },
    token::CollectedData,
    types::{Plaintext, error::Denial},
};
use scrip_expression::is_expression;
use serde_json::Value;

use super::objects::TemplateObjects;
use crate::proxy::edits::TransformError;

/// A token that a transform creates.
#[derive(Debug)]
pub struct CollectedToken {
    /// The body of a create-token request.
    pub body: Plaintext,
    pub data: CollectedTokenData,
}

/// The data of a collected token.
#[derive(Debug)]
pub enum CollectedTokenData {
    /// The sender of the call knows it, or may read it.
    InBody,
    /// In the body. It can be that of a used token, which the sender may not read.
    HiddenInBody,
    /// Data that the client encrypted for the call.
    Encrypted(CollectedData),
}

/// The vault does not evaluate these attributes.
const PLAIN_ATTRIBUTES: [&str; 2] = ["data", "metadata"];

const EXPRESSION_RULE: &str =
    "cannot be applied: only data and metadata can take a value with an expression from a message";
pub(super) const BRACES_RULE: &str = "cannot be applied: a template reads a value of the request \
    that contains {{, and templates read the request as the client sent it";
pub(super) const CVC_RULE: &str = "cannot be applied: an object with the attribute cvc can only \
    become the data of a card";

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

/// Checks the transforms of a call whose message has values of hosted fields, which its page may not
/// read.
///
/// Errors: a transform copies the message into another attribute of a token than `data`.
pub(crate) fn check_field_values<'t>(
    mut transforms: impl Iterator<Item = &'t ProxyTransform>,
) -> Result<(), Error> {
    if transforms.any(|it| copies_object(it, TemplateObject::Request)) {
        return Err(Error::Forbidden(Denial::FieldValuesInToken));
    }
    Ok(())
}

/// Whether a transform stores a token, and copies the object into another attribute than `data`.
pub(super) fn copies_object(transform: &ProxyTransform, object: TemplateObject) -> bool {
    let ProxyTransform::Tokenize { template, .. } = transform else { return false };
    template.reads(object).any(|it| it.place == TemplatePlace::Other)
}

/// Checks that no object with a CVC is copied into a place where it would stay. The message was parsed
/// before.
pub(super) fn check_cvc(
    template: &TransformTemplate,
    object: TemplateObject,
    objects: &TemplateObjects,
) -> Result<(), TransformError> {
    let mut kept = template.reads(object).filter(|it| it.place != TemplatePlace::CardData);
    if kept.any(|it| objects.marks(it).has_cvc) {
        return Err(TransformError::Rule(CVC_RULE));
    }
    Ok(())
}
