//! Adds a value to a body or to the headers.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use scrip_core::policy::proxy::transform::JsonLocation;
use serde_json::Value;

use super::{TransformMessage, error::TransformError};
use crate::proxy::{
    json_scanner::{JsonEdit, find_edit},
    secret_buffer::{BufferFull, SecretBuffer},
};

impl From<BufferFull> for TransformError {
    fn from(BufferFull: BufferFull) -> Self {
        Self::TooLarge
    }
}

/// Validates a JSON body, and finds the place of a value in it.
pub(in crate::proxy) fn find_json_edit(
    message: &TransformMessage,
    location: &JsonLocation,
    depth_max: usize,
) -> Result<JsonEdit, TransformError> {
    let text = std::str::from_utf8(&message.body)
        .map_err(|_| TransformError::Rule("cannot be applied: the body is not UTF-8 text"))?;
    let edit = find_edit(text, location.steps(), depth_max);
    edit.map_err(|error| TransformError::Rule(error.rule))
}

/// Writes a value at the place that [`find_json_edit`] found in this body. All other bytes stay.
pub(in crate::proxy) fn write_json(
    message: &mut TransformMessage,
    edit: &JsonEdit,
    value: &Value,
    bytes_max: usize,
) -> Result<(), TransformError> {
    let body = &message.body;
    let mut output = SecretBuffer::new(body.len().saturating_add(256), bytes_max);
    let (before, after) = match edit {
        JsonEdit::Replace(span) => (body.get(..span.start), body.get(span.end..)),
        JsonEdit::Insert { at, .. } => (body.get(..*at), body.get(*at..)),
    };
    output.push(before.unwrap_or_default())?;
    if let JsonEdit::Insert { needs_comma, name, .. } = edit {
        if *needs_comma {
            output.push(b",")?;
        }
        if let Some(name) = name {
            serde_json::to_writer(&mut output, name).map_err(|_| TransformError::TooLarge)?;
            output.push(b":")?;
        }
    }
    serde_json::to_writer(&mut output, value).map_err(|_| TransformError::TooLarge)?;
    output.push(after.unwrap_or_default())?;
    message.change_body(output.into_bytes());
    Ok(())
}

pub(in crate::proxy) fn append_text(
    message: &mut TransformMessage,
    text: &[u8],
    bytes_max: usize,
) -> Result<(), TransformError> {
    let mut output = SecretBuffer::new(message.body.len().saturating_add(256), bytes_max);
    output.push(&message.body)?;
    output.push(text)?;
    message.change_body(output.into_bytes());
    Ok(())
}

pub(in crate::proxy) fn append_header(
    headers: &mut HeaderMap,
    name: &str,
    value: &Value,
) -> Result<(), TransformError> {
    const NAME_RULE: &str = "cannot be applied: the location is not the name of a header";
    const VALUE_RULE: &str =
        "cannot be applied: the value contains a control character, which a header cannot have";
    let name = HeaderName::from_bytes(name.as_bytes());
    let name = name.map_err(|_| TransformError::Rule(NAME_RULE))?;
    let text = render_text(value)?;
    let text = std::str::from_utf8(text.as_slice()).unwrap_or_default();
    let value = Some(text).filter(|it| !it.contains(char::is_control));
    let value = value.and_then(|it| HeaderValue::from_str(it).ok());
    let mut value = value.ok_or(TransformError::Rule(VALUE_RULE))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

/// The text of a value. Lists and objects are JSON text; null is empty.
pub(in crate::proxy) fn render_text(value: &Value) -> Result<SecretBuffer, TransformError> {
    let mut output = SecretBuffer::new(256, usize::MAX);
    match value {
        Value::Null => (),
        Value::String(text) => output.push(text.as_bytes())?,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json::to_writer(&mut output, value).map_err(|_| TransformError::TooLarge)?;
        }
    }
    Ok(output)
}
