//! The messages that the templates of transforms can read. Each is parsed once for each state.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use scrip_core::{
    expression::message::charge_message_bytes, types::Plaintext, work_meter::WorkMeter,
};
use scrip_expression::MessageTemplate;
use serde_json::{Map, Value};

use crate::{
    proxy::edits::{TransformError, TransformMessage},
    wire::json,
};

/// A body, and how to parse it.
#[derive(Debug)]
pub(super) struct ClientMessage {
    pub(super) content_type: Option<HeaderValue>,
    pub(super) body: Bytes,
}

/// `req` and `res`, as far as templates have read them.
#[derive(Debug)]
pub(super) struct TemplateObjects {
    /// The request as the client sent it.
    client_message: ClientMessage,
    values: Plaintext,
}

const REQUEST: &str = "req";
const RESPONSE: &str = "res";

/// Parsing a byte takes longer than an expression that reads it.
const PARSE_WORK_PER_BYTE: usize = 4;

const TEXT_RULE: &str = "cannot read the body: the body is not UTF-8 text";
const JSON_RULE: &str = "cannot read the body: the body is not valid JSON";
const NO_RESPONSE: &str = "cannot read res: there is no response yet";

impl TemplateObjects {
    pub(super) fn new(client_message: ClientMessage) -> Self {
        Self { client_message, values: Plaintext::new(Map::new().into()) }
    }

    /// The bytes that must be parsed before the template can be evaluated.
    pub(super) fn unread_bytes(
        &self,
        template: &MessageTemplate,
        response: Option<&TransformMessage>,
    ) -> usize {
        let unread = |name, length| match self.values.expose().get(name) {
            None if template.can_read(&[name]) => length,
            _ => 0,
        };
        let response = response.map_or(0, |it| it.body.len());
        unread(REQUEST, self.client_message.body.len()).saturating_add(unread(RESPONSE, response))
    }

    /// Parses the messages that the template reads. `req` and `res` are the bodies themselves: an
    /// object if the body is JSON, otherwise text.
    pub(super) fn read(
        &mut self,
        template: &MessageTemplate,
        response: Option<&TransformMessage>,
        work: &WorkMeter,
    ) -> Result<(), TransformError> {
        self.read_request(template, work)?;
        if template.can_read(&[RESPONSE]) && self.values.expose().get(RESPONSE).is_none() {
            let response = response.ok_or(TransformError::Rule(NO_RESPONSE))?;
            let content_type = response.headers.get(CONTENT_TYPE);
            let response = read_body(content_type, &response.body, work)?;
            self.insert(RESPONSE, response);
        }
        Ok(())
    }

    /// Parses the client's message, if the template reads it.
    pub(super) fn read_request(
        &mut self,
        template: &MessageTemplate,
        work: &WorkMeter,
    ) -> Result<(), TransformError> {
        if template.can_read(&[REQUEST]) && self.values.expose().get(REQUEST).is_none() {
            let ClientMessage { content_type, body } = &self.client_message;
            let request = read_body(content_type.as_ref(), body, work)?;
            self.insert(REQUEST, request);
        }
        Ok(())
    }

    fn insert(&mut self, name: &str, value: Value) {
        if let Value::Object(values) = self.values.expose_mut() {
            values.insert(name.to_owned(), value);
        }
    }

    /// A transform changed the body of the response.
    pub(super) fn forget_response(&mut self) {
        if let Value::Object(values) = self.values.expose_mut() {
            drop(values.remove(RESPONSE).map(Plaintext::new));
        }
    }

    /// For control runs of the non-interference test: another message as `req`.
    pub(super) fn replace_request(&mut self, content_type: Option<HeaderValue>, body: Bytes) {
        self.client_message = ClientMessage { content_type, body };
        if let Value::Object(values) = self.values.expose_mut() {
            drop(values.remove(REQUEST).map(Plaintext::new));
        }
    }

    pub(super) fn values(&self) -> &Value {
        self.values.expose()
    }

    pub(super) fn values_mut(&mut self) -> &mut Plaintext {
        &mut self.values
    }
}

fn read_body(
    content_type: Option<&HeaderValue>,
    body: &[u8],
    work: &WorkMeter,
) -> Result<Value, TransformError> {
    let charged = charge_message_bytes(work, body.len().saturating_mul(PARSE_WORK_PER_BYTE));
    charged.map_err(|error| TransformError::Failed(Box::new(error.into())))?;
    let content_type = content_type.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        let value = json::read(body).map_err(|_| TransformError::Rule(JSON_RULE))?;
        return Ok(value.into_exposed());
    }
    let text = std::str::from_utf8(body).map_err(|_| TransformError::Rule(TEXT_RULE))?;
    Ok(Value::String(text.to_owned()))
}
