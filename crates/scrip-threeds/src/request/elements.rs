//! Which attribute of a request becomes which element of an `AReq`, as tables. An element of an object
//! is named with a dot.

mod cardholder;
mod device;
mod envelope;
mod purchase;

use serde_json::{Map, Value};

use crate::request::{AReqInput, MessageExtension};

/// One element: where it comes from, where it goes, and how it is made. The format is checked when
/// the message is.
#[derive(Debug)]
pub(crate) struct ElementMapping {
    /// The attribute, for whoever has to correct it.
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: fn(&AReqInput<'_>) -> Option<Value>,
}

macro_rules! elements {
    ($($path:literal => $name:literal: $value:expr;)*) => {
        &[$($crate::request::elements::ElementMapping { path: $path, name: $name, value: $value },)*]
    };
}

use elements;

pub(crate) fn all_mappings() -> impl Iterator<Item = &'static ElementMapping> {
    let envelope = envelope::ELEMENTS.iter().chain(device::ELEMENTS);
    envelope.chain(purchase::ELEMENTS).chain(cardholder::ELEMENTS).chain(cardholder::ADDRESSES)
}

/// A text as it is; an empty one is none.
fn text_value(value: Option<&String>) -> Option<Value> {
    value.filter(|it| !it.is_empty()).map(|it| Value::String(it.clone()))
}

/// The code for one of our names. The rules have refused any other.
fn code_value<C>(
    name: Option<&String>,
    parse: fn(&str) -> Option<C>,
    code: fn(C) -> String,
) -> Option<Value> {
    name.and_then(|it| parse(it)).map(|it| Value::String(code(it)))
}

/// The code for a yes or no.
fn flag_value<C: From<bool>>(flag: Option<bool>, code: fn(C) -> &'static str) -> Option<Value> {
    flag.map(|it| code(C::from(it)).into())
}

/// An object, or a text that is one.
pub(super) fn parse_object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => {
            crate::json::parse_object(text.as_bytes()).ok().map(|it| it.0.clone())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

pub(super) fn extension_data(extension: &MessageExtension) -> Option<Map<String, Value>> {
    extension.data.as_ref().and_then(parse_object)
}
