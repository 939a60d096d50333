//! What is asked for, by whom.

use serde_json::{Map, Value};

use super::{Element, code, elements, extension_data, text};
use crate::{
    code::{ChallengePreference, DeviceChannel, MethodCompletion, YesNo},
    request::{MessageExtension, Question},
};

pub(super) const ELEMENTS: &[Element] = elements! {
    "" => "messageVersion": |it| Some(it.situation.version.code().into());
    "" => "threeDSServerTransID": |it| Some(it.subject.id.expose().into());
    "" => "threeDSServerRefNumber": |it| Some(it.server.reference_number.as_str().into());
    "" => "threeDSServerOperatorID": |it| text(it.server.operator_id.as_ref());
    "" => "threeDSServerURL": |it| Some(it.server.results_url.as_str().into());
    "" => "deviceChannel": |it| Some(it.channel().code().into());
    "authentication_category" => "messageCategory": |it| Some(it.situation.category()?.code().into());
    "" => "acctNumber": |it| Some(it.card.number.expose().into());
    "" => "cardExpiryDate": |it| text(it.card.expiry.as_ref());
    "" => "threeDSCompInd": |it| it.on(DeviceChannel::Browser, it.method().code().into());
    "" => "notificationURL": |it| {
        it.on(DeviceChannel::Browser, it.server.notification_url.as_str().into())
    };
    "requestor_info.id" => "threeDSRequestorID": |it| text(it.requestor()?.id.as_ref());
    "requestor_info.name" => "threeDSRequestorName": |it| text(it.requestor()?.name.as_ref());
    "requestor_info.url" => "threeDSRequestorURL": |it| text(it.requestor()?.url.as_ref());
    "authentication_type" => "threeDSRequestorAuthenticationInd": |it| {
        let kind = it.situation.kind().filter(|_| !it.situation.is_merchant())?;
        Some(kind.of_customer()?.code().into())
    };
    "authentication_type" => "threeRIInd": |it| {
        let kind = it.situation.kind().filter(|_| it.situation.is_merchant())?;
        Some(kind.of_merchant()?.code().into())
    };
    "challenge_preference" => "threeDSRequestorChallengeInd": |it| {
        let name = it.situation.request.challenge_preference.as_ref();
        code(name, ChallengePreference::from_name, ChallengePreference::code)
    };
    "request_decoupled_challenge" => "threeDSRequestorDecReqInd": |it| {
        Some(YesNo::from(it.situation.decoupled()).code().into())
    };
    "decoupled_challenge_max_time" => "threeDSRequestorDecMaxTime": |it| {
        let minutes = it.situation.request.decoupled_challenge_max_time?;
        it.situation.decoupled().then(|| format!("{minutes:05}").into())
    };
    "broadcast_info" => "broadInfo": |it| it.situation.request.broadcast_info.clone();
    "message_extensions" => "messageExtension": |it| {
        let sent = it.situation.request.message_extensions.as_ref().filter(|it| !it.is_empty())?;
        Some(Value::Array(sent.iter().filter_map(extension).collect()))
    };
};

fn extension(sent: &MessageExtension) -> Option<Value> {
    let mut object = Map::new();
    object.insert("id".to_owned(), text(sent.id.as_ref())?);
    object.insert("name".to_owned(), text(sent.name.as_ref())?);
    object.insert("criticalityIndicator".to_owned(), sent.critical?.into());
    object.insert("data".to_owned(), Value::Object(extension_data(sent)?));
    Some(Value::Object(object))
}

impl Question<'_> {
    fn method(&self) -> MethodCompletion {
        self.subject.method
    }
}
