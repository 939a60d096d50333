//! Parses the body of Tokenize: any JSON with values to tokenize.

use scrip_core::{
    Error, FieldError,
    card::TokenType,
    idempotency::{RenderedResponse, response::TokenSpan},
    operations::{reference_data::DetokenizeRenderers, tokens::tokenize::RequestedToken},
    token::{NewToken, TokenIntentView, TokenView, WrittenToken},
    types::{AttributePath, Plaintext},
};
use serde_json::{Map, Value};

use crate::wire::{
    ParseError,
    tokens::{token, token_intent, token_response},
};

/// The structure of the body without the tokens, which are referenced by index.
pub(crate) enum ResponseTemplate {
    /// Null or an empty value: there is nothing to tokenize.
    Unchanged(Value),
    /// A token request.
    Token(usize),
    /// Any other value: the id of its token replaces it.
    Leaf(usize),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Returns whether an object is a token request. An object without `type`, or without `data` and
/// `encrypted`, is not.
fn is_token(object: &Map<String, Value>) -> bool {
    let has_intent = object.get("token_intent_id").is_some_and(|it| !it.is_null());
    let has_data = object.contains_key("data") || object.contains_key("encrypted");
    has_intent || (object.contains_key("type") && has_data)
}

/// Counts the tokens that a body would create. Called before parsing, because there can be too
/// many.
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
    let template = reader.read_value(body.into_exposed())?;
    if reader.errors.is_empty() {
        return Ok((template, reader.requested));
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
                let mut templates = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    let parent_path = self.path.enter_index(index);
                    templates.push(self.read_value(item)?);
                    self.path.leave(parent_path);
                }
                Ok(ResponseTemplate::Array(templates))
            }
            Value::Object(object) if is_token(&object) => self.read_token(object),
            Value::Object(object) => {
                let mut templates = Vec::with_capacity(object.len());
                for (name, value) in object {
                    let parent_path = self.path.enter(&name);
                    let template = self.read_value(value)?;
                    self.path.leave(parent_path);
                    templates.push((name, template));
                }
                Ok(ResponseTemplate::Object(templates))
            }
        }
    }

    /// Parses a token request. All errors of all tokens are reported together.
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
        let index = self.requested.len();
        self.requested.push(RequestedToken { path: self.path.as_str().to_owned(), new });
        index
    }
}

impl ResponseTemplate {
    /// Renders the response, without the data of the tokens.
    pub(crate) fn render(&self, tokens: &[WrittenToken]) -> RenderedResponse {
        let mut rendered = RenderedResponse::without_tokens(200, String::new());
        self.write(tokens, &mut rendered);
        rendered
    }

    fn write(&self, tokens: &[WrittenToken], response: &mut RenderedResponse) {
        match self {
            Self::Unchanged(value) => response.body.push_str(&value.to_string()),
            Self::Token(index) => {
                let start = response.body.len();
                let object = tokens.get(*index).map(token_response::render_created);
                response.body.push_str(&object.map(|it| it.body).unwrap_or_default());
                response.tokens.push(TokenSpan {
                    write_index: *index,
                    start,
                    end: response.body.len(),
                });
            }
            Self::Leaf(index) => {
                let id = tokens.get(*index).map(|it| it.token.id.as_str()).unwrap_or_default();
                push_json_text(&mut response.body, id);
            }
            Self::Array(items) => {
                let mut separator = '[';
                for item in items {
                    response.body.push(separator);
                    item.write(tokens, response);
                    separator = ',';
                }
                response.body.push(']');
            }
            Self::Object(properties) => {
                let mut separator = '{';
                for (name, value) in properties {
                    response.body.push(separator);
                    push_json_text(&mut response.body, name);
                    response.body.push(':');
                    value.write(tokens, response);
                    separator = ',';
                }
                response.body.push('}');
            }
        }
    }
}

fn push_json_text(body: &mut String, text: &str) {
    body.push_str(&serde_json::to_string(text).unwrap_or_default());
}

pub(crate) const WHOLE_TOKEN_RENDERERS: DetokenizeRenderers =
    DetokenizeRenderers { token: render_whole_token, intent: render_whole_intent };

/// The token as Get Token returns it.
fn render_whole_token(view: TokenView) -> Plaintext {
    let rendered = token_response::render_token(&view);
    add_data(&rendered, view.detail.and_then(|it| it.visible.into_data()))
}

/// The intent as Get Token Intent returns it, plus the data, which that response never contains.
fn render_whole_intent(view: &TokenIntentView, data: Option<Plaintext>) -> Plaintext {
    add_data(&token_intent::render_token_intent(view), data)
}

fn add_data(rendered: &RenderedResponse, data: Option<Plaintext>) -> Plaintext {
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = data {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plaintext::new(Value::Object(object))
}
