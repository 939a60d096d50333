//! Tokens inside of any JSON.

use scrip_core::{
    error::{Error, FieldError},
    idempotency::{RenderedResponse, response::TokenSpan},
    operations::tokens::tokenize::RequestedToken,
    token::{AttributePath, NewToken, Plaintext, TokenType, WrittenToken},
};
use serde_json::{Map, Value};

use crate::wire::{
    ParseError,
    tokens::{token, token_response},
};

/// The body with its tokens taken out. They are known by their order.
pub(crate) enum ResponseTemplate {
    /// Null, or something empty: there is nothing to keep secret.
    Unchanged(Value),
    /// An object that said what it wants to be.
    Token(usize),
    /// Any other value: its id takes its place.
    Leaf(usize),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// What says that it is a token. One with only one of `type` and `data` is an object like any
/// other.
fn is_token(object: &Map<String, Value>) -> bool {
    let intent = object.get("token_intent_id").is_some_and(|it| !it.is_null());
    intent || (object.contains_key("type") && object.contains_key("data"))
}

/// How many tokens a body would make. Before anything is made of it: it may be far too many.
pub(crate) fn count_tokens(body: &Value) -> usize {
    match body {
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => items.iter().map(count_tokens).sum(),
        Value::Object(object) if is_token(object) => 1,
        Value::Object(object) => object.values().map(count_tokens).sum(),
    }
}

pub(crate) fn parse(
    body: Plaintext,
) -> Result<(ResponseTemplate, Vec<RequestedToken>), ParseError> {
    let mut reader = TemplateReader::default();
    let form = reader.read_value(body.into_exposed())?;
    if reader.errors.is_empty() {
        return Ok((form, reader.requested));
    }
    Err(Error::Invalid(reader.errors).into())
}

#[derive(Default)]
struct TemplateReader {
    path: AttributePath,
    requested: Vec<RequestedToken>,
    errors: Vec<FieldError>,
}

impl TemplateReader {
    fn read_value(&mut self, value: Value) -> Result<ResponseTemplate, ParseError> {
        match value {
            Value::Null => Ok(ResponseTemplate::Unchanged(value)),
            Value::Array(items) if items.is_empty() => {
                Ok(ResponseTemplate::Unchanged(Value::Array(items)))
            }
            Value::Object(object) if object.is_empty() => {
                Ok(ResponseTemplate::Unchanged(Value::Object(object)))
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(ResponseTemplate::Leaf(
                self.add_request(NewToken::with_data(TokenType::Token, Plaintext::new(value))),
            )),
            Value::Array(items) => {
                let mut forms = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    let mark = self.path.enter_index(at);
                    forms.push(self.read_value(item)?);
                    self.path.leave(mark);
                }
                Ok(ResponseTemplate::Array(forms))
            }
            Value::Object(object) if is_token(&object) => self.read_token(object),
            Value::Object(object) => {
                let mut forms = Vec::with_capacity(object.len());
                for (name, value) in object {
                    let mark = self.path.enter(&name);
                    let form = self.read_value(value)?;
                    self.path.leave(mark);
                    forms.push((name, form));
                }
                Ok(ResponseTemplate::Object(forms))
            }
        }
    }

    /// All that is wrong with any of them is told at once.
    fn read_token(&mut self, object: Map<String, Value>) -> Result<ResponseTemplate, ParseError> {
        match token::parse_new(Plaintext::new(Value::Object(object))) {
            Ok(new) => Ok(ResponseTemplate::Token(self.add_request(new))),
            Err(ParseError::Failed(Error::Invalid(errors))) => {
                let path = self.path.as_str();
                self.errors.extend(errors.into_iter().map(|it| it.prefix_path(path)));
                Ok(ResponseTemplate::Unchanged(Value::Null))
            }
            Err(problem) => Err(problem),
        }
    }

    fn add_request(&mut self, new: NewToken) -> usize {
        let place = self.requested.len();
        self.requested.push(RequestedToken { path: self.path.as_str().to_owned(), new });
        place
    }
}

impl ResponseTemplate {
    /// The answer, without the data of tokens.
    pub(crate) fn render(&self, written: &[WrittenToken]) -> RenderedResponse {
        let mut rendered = RenderedResponse::without_tokens(200, String::new());
        self.write(written, &mut rendered);
        rendered
    }

    fn write(&self, written: &[WrittenToken], to: &mut RenderedResponse) {
        match self {
            Self::Unchanged(value) => to.body.push_str(&value.to_string()),
            Self::Token(at) => {
                let start = to.body.len();
                let object = written.get(*at).map(token_response::render_created);
                to.body.push_str(&object.map(|it| it.body).unwrap_or_default());
                to.tokens.push(TokenSpan { write_index: *at, start, end: to.body.len() });
            }
            Self::Leaf(at) => {
                let id = written.get(*at).map(|it| it.token.id.as_str()).unwrap_or_default();
                push_json_text(&mut to.body, id);
            }
            Self::Array(items) => {
                let mut before = '[';
                for item in items {
                    to.body.push(before);
                    item.write(written, to);
                    before = ',';
                }
                to.body.push(']');
            }
            Self::Object(properties) => {
                let mut before = '{';
                for (name, value) in properties {
                    to.body.push(before);
                    push_json_text(&mut to.body, name);
                    to.body.push(':');
                    value.write(written, to);
                    before = ',';
                }
                to.body.push('}');
            }
        }
    }
}

fn push_json_text(to: &mut String, text: &str) {
    to.push_str(&serde_json::to_string(text).unwrap_or_default());
}
