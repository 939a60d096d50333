//! An intermediate value of an evaluation, borrowed from the data if possible; equality, order and
//! containment of values.

use std::{borrow::Cow, cmp::Ordering, ops::Deref, rc::Rc};

use serde_json::Value;

use crate::{
    inner_steps::{count, count_value},
    value::decimal::NumberRank,
};

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

pub(crate) fn datums_equal(left: &Datum<'_>, right: &Datum<'_>) -> bool {
    match (left, right) {
        (Datum::Empty | Datum::Blank, Datum::Empty | Datum::Blank) => true,
        (Datum::Empty, other) | (other, Datum::Empty) => is_empty(other),
        (Datum::Blank, other) | (other, Datum::Blank) => is_blank(other),
        (left, right) => values_equal(left, right),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => {
            count(text.len());
            text.trim().is_empty()
        }
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            is_empty(value)
        }
    }
}

/// Compares numbers by value (1.0 equals 1) and all other values as JSON.
pub(crate) fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => {
            compare_values(left, right).is_some_and(Ordering::is_eq)
        }
        _ => {
            count_comparison(left, right);
            left == right
        }
    }
}

/// A comparison stops at the first difference, so it costs no more than the smaller value.
fn count_comparison(left: &Value, right: &Value) {
    count(match (left, right) {
        (Value::String(left), Value::String(right)) if left.len() == right.len() => left.len(),
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).for_each(|(left, right)| count_comparison(left, right));
            1
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            left.values()
                .zip(right.values())
                .for_each(|(left, right)| count_comparison(left, right));
            left.keys().map(String::len).sum()
        }
        _ => 1,
    });
}

/// The order of two numbers or two strings. Other values have no order.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            Some(match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => NumberRank::from_json_number(left.as_str())
                    .cmp(&NumberRank::from_json_number(right.as_str())),
            })
        }
        (Value::String(left), Value::String(right)) => {
            count(left.len().min(right.len()));
            Some(left.cmp(right))
        }
        _ => None,
    }
}

pub(crate) fn value_contains(left: &Value, right: &Value) -> bool {
    match left {
        Value::String(text) => {
            let wanted = to_text(right);
            count(text.len().saturating_add(wanted.len()));
            !right.is_null() && text.contains(&*wanted)
        }
        Value::Array(items) => items.iter().any(|it| values_equal(it, right)),
        Value::Object(object) => right.as_str().is_some_and(|it| object.contains_key(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
