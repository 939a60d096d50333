//! Sessions: each way through, each refusal, and whatever order chance brings.

mod chance;
mod paths;

use serde_json::json;

use super::*;
use crate::{
    authentication::Asked,
    code::{
        AuthenticationCategory, ChallengePreference, DeviceChannel, Scheme, SessionType, Status,
    },
    format::{TransId, Version},
    message::{ARes, CRes, Message, RReq, Scene},
};

pub(super) const ID: &str = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
pub(super) const ACS: &str = "d7c1ee99-9478-44a6-b1f2-391e29c6b340";
pub(super) const DS: &str = "f25084f0-5b16-4c0a-ae5d-b24808a95e4b";

pub(super) fn from_stored(bytes: &[u8]) -> serde_json::Result<Session> {
    serde_json::from_slice(bytes)
}
pub(super) const OTHER: &str = "00000000-0000-4000-8000-000000000000";

const VALUE: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";

pub(super) fn id(text: &str) -> TransId {
    TransId::parse(text).unwrap()
}

pub(super) fn asked() -> Asked {
    Asked {
        version: Version::V220,
        scheme: Scheme::Visa,
        category: AuthenticationCategory::Payment,
        challenge_preference: Some(ChallengePreference::Requested),
        decoupled_minutes: Some(5),
    }
}

pub(super) fn session(channel: DeviceChannel) -> Session {
    let kind = match channel {
        DeviceChannel::Requestor => SessionType::Merchant,
        DeviceChannel::App | DeviceChannel::Browser => SessionType::Customer,
    };
    Session::created(id(ID), kind, channel, Moment(3600))
}

/// An answer with all that its status needs.
pub(super) fn answer(server: &str, status: &str) -> ARes {
    let mut object = json!({
        "messageType": "ARes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": ACS, "dsTransID": DS, "acsReferenceNumber": "acs", "dsReferenceNumber": "ds",
        "transStatus": status,
    });
    match status {
        "Y" | "A" => object["authenticationValue"] = VALUE.into(),
        "N" | "U" | "R" => object["transStatusReason"] = "01".into(),
        "C" | "D" => {
            object["acsChallengeMandated"] = "N".into();
            object["authenticationType"] = "02".into();
            object["acsDecConInd"] = "Y".into();
            object["cardholderInfo"] = "Look at your phone".into();
        }
        _ => (),
    }
    if status == "C" {
        object["acsURL"] = "https://acs.example/challenge".into();
    }
    ARes::parse(object.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap()
}

/// A result, about the ids that are given: server, ACS, directory server.
pub(super) fn result(ids: [&str; 3], status: &str) -> RReq {
    let [server, acs, ds] = ids;
    let mut object = json!({
        "messageType": "RReq", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": acs, "dsTransID": ds, "messageCategory": "01", "transStatus": status,
        "interactionCounter": "01", "eci": "05",
    });
    match status {
        "Y" | "A" => object["authenticationValue"] = VALUE.into(),
        _ => object["transStatusReason"] = "11".into(),
    }
    RReq::parse(object.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap()
}

pub(super) fn told(server: &str, acs: &str, status: Option<&str>) -> CRes {
    let mut object = json!({
        "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": acs, "challengeCompletionInd": "N",
    });
    if let Some(status) = status {
        object["challengeCompletionInd"] = "Y".into();
        object["transStatus"] = status.into();
    }
    CRes::parse(object.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap()
}

pub(super) fn authenticate() -> Event {
    Event::Authenticate { asked: asked() }
}

pub(super) fn response(status: &str) -> Event {
    Event::Response { answer: Box::new(answer(ID, status)) }
}

pub(super) fn results(status: &str) -> Event {
    let result = Box::new(result([ID, ACS, DS], status));
    Event::Result { result, secret: SecretFact::Matches }
}

pub(super) fn notification(status: &str) -> Event {
    Event::ChallengeNotification { response: Box::new(told(ID, ACS, Some(status))) }
}

pub(super) fn method() -> Event {
    Event::MethodNotification { server_trans_id: id(ID) }
}

/// Several events, a second apart, none of them refused. The effects are those of the last.
#[track_caller]
pub(super) fn walk(mut session: Session, events: &[Event]) -> (Session, Vec<Effect>) {
    let mut effects = Vec::new();
    for (event, second) in events.iter().zip(1..) {
        (session, effects) = session.step(event, Moment(second)).unwrap();
    }
    (session, effects)
}

#[track_caller]
pub(super) fn status(session: &Session) -> Status {
    session.authentication().unwrap().status
}
