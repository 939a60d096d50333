//! An intermediate value of an evaluation, borrowed from the data if possible.

use std::{borrow::Cow, ops::Deref, rc::Rc};

use serde_json::Value;

use crate::inner_steps::{count, count_value};

#[derive(Debug, Clone)]
pub(crate) enum Datum<'a> {
    Borrowed(&'a Value),
    Owned(Value),
    /// The value of a variable, which may be read many times.
    Shared(Rc<Value>),
    /// The result of `hmac`. Without an encoder, its text is upper-case base16. Unlike base64,
    /// base16 uses only characters that an id may contain.
    Bytes {
        raw: Vec<u8>,
        text: Value,
    },
    /// `empty` and `blank`: empty text that also equals other values.
    Empty,
    Blank,
}

static NULL: Value = Value::Null;
static EMPTY_TEXT: Value = Value::String(String::new());

impl Datum<'_> {
    pub(crate) fn null() -> Self {
        Self::Borrowed(&NULL)
    }

    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self::Owned(Value::String(text.into()))
    }

    pub(crate) fn from_bytes(raw: Vec<u8>) -> Self {
        let text = Value::String(base16(&raw));
        Self::Bytes { raw, text }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Borrowed(value) => {
                count_value(value);
                value.clone()
            }
            Self::Owned(value) | Self::Bytes { text: value, .. } => value,
            Self::Shared(value) => {
                count_value(&value);
                Rc::unwrap_or_clone(value)
            }
            Self::Empty | Self::Blank => EMPTY_TEXT.clone(),
        }
    }

    /// For a variable: its value is read many times, so a copy must be cheap.
    pub(crate) fn into_shared(self) -> Self {
        match self {
            Self::Owned(value) => Self::Shared(Rc::new(value)),
            Self::Borrowed(_)
            | Self::Shared(_)
            | Self::Bytes { .. }
            | Self::Empty
            | Self::Blank => self,
        }
    }

    /// Everything except null and false is true.
    pub(crate) fn is_true(&self) -> bool {
        !matches!(**self, Value::Null | Value::Bool(false))
    }
}

impl Deref for Datum<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) | Self::Bytes { text: value, .. } => value,
            Self::Shared(value) => value,
            Self::Empty | Self::Blank => &EMPTY_TEXT,
        }
    }
}

/// The text of a value: null is empty, text is unchanged, other values are compact JSON.
pub(crate) fn to_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Borrowed(number.as_str()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            count(text.len());
            Cow::Owned(text)
        }
    }
}

pub(crate) fn base16(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |it: u8| DIGITS.get(usize::from(it)).copied().map_or('0', char::from);
    count(bytes.len());
    bytes.iter().flat_map(|it| [digit(it >> 4), digit(it & 15)]).collect()
}
