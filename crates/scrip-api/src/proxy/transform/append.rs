//! Adds a value to a body or to the headers.

use bytes::Bytes;
use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use scrip_core::{proxy::transform::JsonLocation, token::Plaintext};
use serde_json::Value;

use super::TransformError;
use crate::proxy::{
    json_scanner::{JsonEdit, find_edit},
    secret_buffer::{BufferFull, SecretBuffer},
};

impl From<BufferFull> for TransformError {
    fn from(BufferFull: BufferFull) -> Self {
        Self::TooLarge
    }
}

/// Writes the value at the location. All other bytes stay.
pub(super) fn append_json(
    body: &[u8],
    location: &JsonLocation,
    value: &Plaintext,
    bytes_max: usize,
) -> Result<Bytes, TransformError> {
    let text = std::str::from_utf8(body)
        .map_err(|_| TransformError::Rule("cannot be applied: the body is not UTF-8 text"))?;
    let edit = find_edit(text, location).map_err(|error| TransformError::Rule(error.rule))?;
    let mut output = SecretBuffer::new(body.len().saturating_add(256), bytes_max);
    let (before, after) = match &edit {
        JsonEdit::Replace(span) => (body.get(..span.start), body.get(span.end..)),
        JsonEdit::Insert { at, .. } => (body.get(..*at), body.get(*at..)),
    };
    output.push(before.unwrap_or_default())?;
    if let JsonEdit::Insert { needs_comma, name, .. } = &edit {
        if *needs_comma {
            output.push(b",")?;
        }
        if let Some(name) = name {
            serde_json::to_writer(&mut output, name).map_err(|_| TransformError::TooLarge)?;
            output.push(b":")?;
        }
    }
    serde_json::to_writer(&mut output, value.expose()).map_err(|_| TransformError::TooLarge)?;
    output.push(after.unwrap_or_default())?;
    Ok(output.into_bytes())
}

pub(super) fn append_text(
    body: &[u8],
    value: &Plaintext,
    bytes_max: usize,
) -> Result<Bytes, TransformError> {
    let mut output = SecretBuffer::new(body.len().saturating_add(256), bytes_max);
    output.push(body)?;
    push_text(&mut output, value.expose())?;
    Ok(output.into_bytes())
}

pub(super) fn append_header(
    headers: &mut HeaderMap,
    name: &str,
    value: &Plaintext,
) -> Result<(), TransformError> {
    const NAME_RULE: &str = "cannot be applied: the location is not the name of a header";
    const VALUE_RULE: &str =
        "cannot be applied: the value contains a control character, which a header cannot have";
    let name = HeaderName::from_bytes(name.as_bytes());
    let name = name.map_err(|_| TransformError::Rule(NAME_RULE))?;
    let mut text = SecretBuffer::new(256, usize::MAX);
    push_text(&mut text, value.expose())?;
    let text = std::str::from_utf8(text.as_slice()).unwrap_or_default();
    let value = Some(text).filter(|it| !it.contains(char::is_control));
    let value = value.and_then(|it| HeaderValue::from_str(it).ok());
    let mut value = value.ok_or(TransformError::Rule(VALUE_RULE))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

/// Lists and objects are JSON text; null is empty.
fn push_text(output: &mut SecretBuffer, value: &Value) -> Result<(), TransformError> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => Ok(output.push(text.as_bytes())?),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json::to_writer(output, value).map_err(|_| TransformError::TooLarge)
        }
    }
}
