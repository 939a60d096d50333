//! The inputs of an `AReq`, the mapping of one element, and the values that mappings share.

use serde_json::{Map, Value};

use crate::{
    code::{DeviceChannel, MethodCompletion},
    format::{CardNumber, TransId},
    request::{AuthenticateContext, DeviceInfo, MessageExtension, RequestorInfo},
};

/// One element: the request attribute it comes from, its name, and the function that returns its
/// value. The function does not check the format: that is done when the whole message is read.
#[derive(Debug)]
pub(crate) struct ElementMapping {
    /// The path of the attribute, for violations. Empty if the element comes from no attribute.
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: fn(&AReqInput<'_>) -> Option<Value>,
}

macro_rules! elements {
    ($($path:literal => $name:literal: $value:expr;)*) => {
        &[$($crate::request::elements::mapping::ElementMapping { path: $path, name: $name, value: $value },)*]
    };
}

/// The text of an attribute of a part of the request.
macro_rules! text {
    ($part:ident.$attribute:ident) => {
        |it| $crate::request::elements::mapping::text_value(it.$part()?.$attribute.as_ref())
    };
}

pub(super) use {elements, text};

/// The text unchanged. Empty text counts as absent.
pub(super) fn text_value(value: Option<&String>) -> Option<Value> {
    value.filter(|it| !it.is_empty()).map(|it| Value::String(it.clone()))
}

/// The code of an API name. The rules have rejected unknown names.
pub(super) fn code_value<C>(
    name: Option<&String>,
    parse: fn(&str) -> Option<C>,
    code: fn(C) -> String,
) -> Option<Value> {
    name.and_then(|it| parse(it)).map(|it| Value::String(code(it)))
}

/// The code of a boolean.
pub(super) fn flag_value<C: From<bool>>(
    flag: Option<bool>,
    code: fn(C) -> &'static str,
) -> Option<Value> {
    flag.map(|it| code(C::from(it)).into())
}

/// An object, or text that contains a JSON object.
pub(super) fn parse_object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => {
            crate::json::parse_object(text.as_bytes()).ok().map(|it| it.0.clone())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

/// The data of an extension, which is an object in the message. Text that is no JSON object is sent
/// as its only member.
pub(in crate::request) fn extension_data(
    extension: &MessageExtension,
) -> Option<Map<String, Value>> {
    let data = extension.data.as_ref()?;
    let text_member =
        || data.is_string().then(|| Map::from_iter([("value".to_owned(), data.clone())]));
    parse_object(data).or_else(text_member)
}

/// The data of a session that its `AReq` contains.
#[derive(Debug)]
pub struct AReqSession {
    pub id: TransId,
    /// Whether the page of the method URL completed; sent only for browsers.
    pub method_completion: MethodCompletion,
}

/// The identifiers and URLs of this 3DS server, which an `AReq` sends to the directory server.
#[derive(Debug)]
pub struct ServerIdentity {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// Where the result is posted. It contains a secret and must not be logged.
    pub results_url: String,
    /// Where the browser returns after a challenge.
    pub notification_url: String,
}

/// The card. The expiry is YYMM.
#[derive(Debug)]
pub struct AReqCard {
    pub number: CardNumber,
    pub expiry: Option<String>,
}

/// All inputs of an `AReq`.
#[derive(Debug, Clone, Copy)]
pub struct AReqInput<'a> {
    pub context: AuthenticateContext<'a>,
    pub session: &'a AReqSession,
    pub server: &'a ServerIdentity,
    pub card: &'a AReqCard,
}

impl<'a> AReqInput<'a> {
    pub(crate) fn channel(&self) -> DeviceChannel {
        DeviceChannel::for_session(self.context.session, self.context.device)
    }

    pub(crate) fn if_channel(&self, channel: DeviceChannel, value: Value) -> Option<Value> {
        (self.channel() == channel).then_some(value)
    }

    pub(crate) fn requestor(&self) -> Option<&'a RequestorInfo> {
        self.context.request.requestor_info.as_ref()
    }

    pub(crate) fn device_info(&self) -> &'a DeviceInfo {
        self.context.device_info
    }
}
