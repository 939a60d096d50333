//! The objects that expressions in transforms can read.

use bytes::Bytes;
use hyper::header::HeaderValue;
use scrip_core::token::Plaintext;
use scrip_expression::MessageTemplate;
use serde_json::{Map, Value};

use super::{TransformDirection, TransformError, TransformMessage};
use crate::wire::json;

/// The request of the client.
#[derive(Debug)]
pub(super) struct ClientMessage {
    pub(super) content_type: Option<HeaderValue>,
    pub(super) body: Bytes,
}

const TEXT_RULE: &str = "cannot read the body: the body is not UTF-8 text";
const JSON_RULE: &str = "cannot read the body: the body is not valid JSON";
const NO_RESPONSE: &str = "cannot read res: there is no response yet";

/// `req` and `res` are the bodies themselves: an object if the body is JSON, otherwise text. Bodies
/// are parsed only if an expression reads them.
pub(super) fn build_objects(
    template: &MessageTemplate,
    message: &TransformMessage,
    direction: TransformDirection,
    client_message: &ClientMessage,
    configuration: &Value,
) -> Result<Plaintext, TransformError> {
    let mut objects = Map::new();
    let content_type = message.headers.get(hyper::header::CONTENT_TYPE);
    if template.can_read(&["req"]) {
        let request = match direction {
            TransformDirection::Request => read_body(content_type, &message.body)?,
            TransformDirection::Response(_) => {
                read_body(client_message.content_type.as_ref(), &client_message.body)?
            }
        };
        objects.insert("req".to_owned(), request);
    }
    if template.can_read(&["res"]) {
        if direction == TransformDirection::Request {
            return Err(TransformError::Rule(NO_RESPONSE));
        }
        objects.insert("res".to_owned(), read_body(content_type, &message.body)?);
    }
    if template.can_read(&["config"]) {
        objects.insert("config".to_owned(), configuration.clone());
    }
    Ok(Plaintext::new(objects.into()))
}

fn read_body(content_type: Option<&HeaderValue>, body: &[u8]) -> Result<Value, TransformError> {
    let content_type = content_type.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        let value = json::read(body).map_err(|_| TransformError::Rule(JSON_RULE))?;
        return Ok(value.into_exposed());
    }
    let text = std::str::from_utf8(body).map_err(|_| TransformError::Rule(TEXT_RULE))?;
    Ok(Value::String(text.to_owned()))
}
