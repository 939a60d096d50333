//! The messages that the templates of transforms can read. Each is parsed once for each state.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use scrip_core::{
    policy::proxy::transform::{TemplateObject, TransformTemplate, template::TemplateRead},
    types::Plaintext,
};
use serde_json::{Map, Value};

use super::message_marks::{Marks, MessageMarks};
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
    request_marks: MessageMarks,
    response_marks: MessageMarks,
}

/// Parsing a byte takes longer than an expression that reads it.
const PARSE_WORK_PER_BYTE: usize = 4;

const TEXT_RULE: &str = "cannot read the body: the body is not UTF-8 text";
const JSON_RULE: &str = "cannot read the body: the body is not valid JSON";
const NO_RESPONSE: &str = "cannot read res: there is no response yet";

fn name(object: TemplateObject) -> &'static str {
    match object {
        TemplateObject::Request => "req",
        TemplateObject::Response => "res",
    }
}

impl TemplateObjects {
    pub(super) fn new(client_message: ClientMessage) -> Self {
        let values = Plaintext::new(Map::new().into());
        let (request_marks, response_marks) = Default::default();
        Self { client_message, values, request_marks, response_marks }
    }

    /// The work to parse the messages that the template reads and that are not parsed yet.
    pub(super) fn parse_work(
        &self,
        template: &TransformTemplate,
        response: Option<&TransformMessage>,
    ) -> usize {
        let unread = |object, length| match self.values.expose().get(name(object)) {
            None if template.can_read(object) => length,
            _ => 0,
        };
        let response = response.map_or(0, |it| it.body.len());
        let request = unread(TemplateObject::Request, self.client_message.body.len());
        let bytes = request.saturating_add(unread(TemplateObject::Response, response));
        bytes.saturating_mul(PARSE_WORK_PER_BYTE)
    }

    /// Parses the messages that the template reads. `req` and `res` are the bodies themselves: an
    /// object if the body is JSON, otherwise text. The caller has charged the work.
    pub(super) fn read(
        &mut self,
        template: &TransformTemplate,
        response: Option<&TransformMessage>,
    ) -> Result<(), TransformError> {
        self.read_request(template)?;
        if self.is_unread(TemplateObject::Response, template) {
            let response = response.ok_or(TransformError::Rule(NO_RESPONSE))?;
            let response = read_body(response.headers.get(CONTENT_TYPE), &response.body)?;
            self.response_marks = self.insert(TemplateObject::Response, response);
        }
        Ok(())
    }

    /// Parses the client's message, if the template reads it.
    pub(super) fn read_request(
        &mut self,
        template: &TransformTemplate,
    ) -> Result<(), TransformError> {
        if self.is_unread(TemplateObject::Request, template) {
            let ClientMessage { content_type, body } = &self.client_message;
            let request = read_body(content_type.as_ref(), body)?;
            self.request_marks = self.insert(TemplateObject::Request, request);
        }
        Ok(())
    }

    fn is_unread(&self, object: TemplateObject, template: &TransformTemplate) -> bool {
        template.can_read(object) && self.values.expose().get(name(object)).is_none()
    }

    fn insert(&mut self, object: TemplateObject, value: Value) -> MessageMarks {
        let marks = MessageMarks::find(&value);
        if let Value::Object(values) = self.values.expose_mut() {
            values.insert(name(object).to_owned(), value);
        }
        marks
    }

    /// What the value of a read contains. The message was parsed before.
    pub(super) fn marks(&self, read: &TemplateRead) -> Marks {
        match read.object {
            TemplateObject::Request => self.request_marks.at(&read.steps),
            TemplateObject::Response => self.response_marks.at(&read.steps),
        }
    }

    /// A transform changed the body of the response.
    pub(super) fn forget_response(&mut self) {
        self.remove(TemplateObject::Response);
        self.response_marks = MessageMarks::default();
    }

    /// For control runs of the non-interference test: another message as `req`.
    pub(super) fn replace_request(&mut self, content_type: Option<HeaderValue>, body: Bytes) {
        self.client_message = ClientMessage { content_type, body };
        self.remove(TemplateObject::Request);
        self.request_marks = MessageMarks::default();
    }

    fn remove(&mut self, object: TemplateObject) {
        if let Value::Object(values) = self.values.expose_mut() {
            drop(values.remove(name(object)).map(Plaintext::new));
        }
    }

    pub(super) fn values(&self) -> &Value {
        self.values.expose()
    }

    pub(super) fn values_mut(&mut self) -> &mut Plaintext {
        &mut self.values
    }
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
