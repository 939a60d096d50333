//! Tokens inside of any JSON.

use scrip_core::{
    error::{Error, FieldError},
    idempotency::{Rendered, answer::Span},
    operations::tokens::tokenize::Requested,
    token::{AttributePath, NewToken, Plain, TokenType, Written},
};
use serde_json::{Map, Value};

use crate::wire::{
    ParseError,
    tokens::{token, token_response},
};

/// The body with its tokens taken out. They are known by their order.
pub(crate) enum Form {
    /// Null, or something empty: there is nothing to keep secret.
    Kept(Value),
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
pub(crate) fn count(body: &Value) -> usize {
    match body {
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(object) if is_token(object) => 1,
        Value::Object(object) => object.values().map(count).sum(),
    }
}

pub(crate) fn parse(body: Plain) -> Result<(Form, Vec<Requested>), ParseError> {
    let mut reader = Reader::default();
    let form = reader.form(body.into_exposed())?;
    if reader.errors.is_empty() {
        return Ok((form, reader.requested));
    }
    Err(Error::Invalid(reader.errors).into())
}

#[derive(Default)]
struct Reader {
    path: AttributePath,
    requested: Vec<Requested>,
    errors: Vec<FieldError>,
}

impl Reader {
    fn form(&mut self, value: Value) -> Result<Form, ParseError> {
        match value {
            Value::Null => Ok(Form::Kept(value)),
            Value::Array(items) if items.is_empty() => Ok(Form::Kept(Value::Array(items))),
            Value::Object(object) if object.is_empty() => Ok(Form::Kept(Value::Object(object))),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Form::Leaf(self.request(NewToken::plain(TokenType::Token, Plain::new(value)))))
            }
            Value::Array(items) => {
                let mut forms = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    let mark = self.path.enter_index(at);
                    forms.push(self.form(item)?);
                    self.path.leave(mark);
                }
                Ok(Form::Array(forms))
            }
            Value::Object(object) if is_token(&object) => self.token(object),
            Value::Object(object) => {
                let mut forms = Vec::with_capacity(object.len());
                for (name, value) in object {
                    let mark = self.path.enter(&name);
                    let form = self.form(value)?;
                    self.path.leave(mark);
                    forms.push((name, form));
                }
                Ok(Form::Object(forms))
            }
        }
    }

    /// All that is wrong with any of them is told at once.
    fn token(&mut self, object: Map<String, Value>) -> Result<Form, ParseError> {
        match token::parse_new(Plain::new(Value::Object(object))) {
            Ok(new) => Ok(Form::Token(self.request(new))),
            Err(ParseError::Failed(Error::Invalid(errors))) => {
                let path = self.path.as_str();
                self.errors.extend(errors.into_iter().map(|it| it.within(path)));
                Ok(Form::Kept(Value::Null))
            }
            Err(problem) => Err(problem),
        }
    }

    fn request(&mut self, new: NewToken) -> usize {
        let place = self.requested.len();
        self.requested.push(Requested { path: self.path.as_str().to_owned(), new });
        place
    }
}

impl Form {
    /// The answer, without the data of tokens.
    pub(crate) fn render(&self, written: &[Written]) -> Rendered {
        let mut rendered = Rendered::plain(200, String::new());
        self.write(written, &mut rendered);
        rendered
    }

    fn write(&self, written: &[Written], to: &mut Rendered) {
        match self {
            Self::Kept(value) => to.body.push_str(&value.to_string()),
            Self::Token(at) => {
                let start = to.body.len();
                let object = written.get(*at).map(token_response::created);
                to.body.push_str(&object.map(|it| it.body).unwrap_or_default());
                to.tokens.push(Span { token: *at, start, end: to.body.len() });
            }
            Self::Leaf(at) => {
                let id = written.get(*at).map(|it| it.token.id.as_str()).unwrap_or_default();
                push_text(&mut to.body, id);
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
                    push_text(&mut to.body, name);
                    to.body.push(':');
                    value.write(written, to);
                    before = ',';
                }
                to.body.push('}');
            }
        }
    }
}

fn push_text(to: &mut String, text: &str) {
    to.push_str(&serde_json::to_string(text).unwrap_or_default());
}
