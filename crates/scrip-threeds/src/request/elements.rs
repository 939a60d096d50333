//! Tables of the elements of an `AReq` and the request attributes they come from. A name with a dot
//! is an element of an object: `homePhone.cc` is the element `cc` of the object `homePhone`.

mod cardholder;
mod device;
mod mapping;
mod purchase;

pub use self::mapping::{AReqCard, AReqInput, AReqSession, ServerIdentity};

pub(crate) use self::mapping::ElementMapping;

use serde_json::{Map, Value};

use self::mapping::{code_value, elements, text, text_value};
use crate::{
    code::{ChallengePreference, DeviceChannel, YesNo},
    request::MessageExtension,
};

pub(super) use self::mapping::extension_data;

pub(crate) fn all_mappings() -> impl Iterator<Item = &'static ElementMapping> {
    let envelope = ENVELOPE.iter().chain(device::ELEMENTS);
    envelope.chain(purchase::ELEMENTS).chain(cardholder::ELEMENTS).chain(cardholder::ADDRESSES)
}

const ENVELOPE: &[ElementMapping] = elements! {
    "" => "messageVersion": |it| Some(it.context.version.code().into());
    "" => "threeDSServerTransID": |it| Some(it.session.id.expose().into());
    "" => "threeDSServerRefNumber": |it| Some(it.server.reference_number.as_str().into());
    "" => "threeDSServerOperatorID": |it| text_value(it.server.operator_id.as_ref());
    "" => "threeDSServerURL": |it| Some(it.server.results_url.as_str().into());
    "" => "deviceChannel": |it| Some(it.channel().code().into());
    "authentication_category" => "messageCategory": |it| Some(it.context.category()?.code().into());
    "" => "acctNumber": |it| Some(it.card.number.expose().into());
    "" => "cardExpiryDate": |it| text_value(it.card.expiry.as_ref());
    "" => "threeDSCompInd": |it| it.if_channel(DeviceChannel::Browser, it.session.method_completion.code().into());
    "" => "notificationURL": |it| {
        it.if_channel(DeviceChannel::Browser, it.server.notification_url.as_str().into())
    };
    "requestor_info.id" => "threeDSRequestorID": text!(requestor.id);
    "requestor_info.name" => "threeDSRequestorName": text!(requestor.name);
    "requestor_info.url" => "threeDSRequestorURL": text!(requestor.url);
    "authentication_type" => "threeDSRequestorAuthenticationInd": |it| {
        let kind = it.context.authentication_type().filter(|_| !it.context.is_merchant())?;
        Some(kind.to_requestor_authentication()?.code().into())
    };
    "authentication_type" => "threeRIInd": |it| {
        let kind = it.context.authentication_type().filter(|_| it.context.is_merchant())?;
        Some(kind.to_requestor_initiated()?.code().into())
    };
    "challenge_preference" => "threeDSRequestorChallengeInd": |it| {
        let name = it.context.request.challenge_preference.as_ref();
        code_value(name, ChallengePreference::from_name, ChallengePreference::code)
    };
    "request_decoupled_challenge" => "threeDSRequestorDecReqInd": |it| {
        Some(YesNo::from(it.context.requests_decoupled()).code().into())
    };
    "decoupled_challenge_max_time" => "threeDSRequestorDecMaxTime": |it| {
        let minutes = it.context.request.decoupled_challenge_max_time?;
        it.context.requests_decoupled().then(|| format!("{minutes:05}").into())
    };
    "broadcast_info" => "broadInfo": |it| it.context.request.broadcast_info.clone();
    "message_extensions" => "messageExtension": |it| {
        let sent = it.context.request.message_extensions.as_ref().filter(|it| !it.is_empty())?;
        Some(Value::Array(sent.iter().filter_map(extension_element).collect()))
    };
};

fn extension_element(extension: &MessageExtension) -> Option<Value> {
    let mut object = Map::new();
    object.insert("id".to_owned(), text_value(extension.id.as_ref())?);
    object.insert("name".to_owned(), text_value(extension.name.as_ref())?);
    object.insert("criticalityIndicator".to_owned(), extension.critical?.into());
    object.insert("data".to_owned(), Value::Object(extension_data(extension)?));
    Some(Value::Object(object))
}
