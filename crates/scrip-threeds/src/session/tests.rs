//! Sessions: each path, each rejection, and random event orders.

mod random_orders;
mod transitions;

use serde_json::json;

use super::*;
use crate::{
    authentication::AuthenticationParameters,
    code::{
        AuthenticationCategory, ChallengePreference, DeviceChannel, Scheme, Status,
        ThreeDsSessionType,
    },
    format::{TransId, Version},
    message::{ARes, CRes, RReq, TransactionContext, parse_message},
};

pub(super) const SERVER_TRANS_ID: &str = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
pub(super) const ACS_TRANS_ID: &str = "d7c1ee99-9478-44a6-b1f2-391e29c6b340";
pub(super) const DS_TRANS_ID: &str = "f25084f0-5b16-4c0a-ae5d-b24808a95e4b";

pub(super) fn from_stored(bytes: &[u8]) -> serde_json::Result<ThreeDsSession> {
    serde_json::from_slice(bytes)
}
pub(super) const OTHER_TRANS_ID: &str = "00000000-0000-4000-8000-000000000000";

const VALUE: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";

pub(super) fn trans_id(text: &str) -> TransId {
    TransId::parse(text).unwrap()
}

pub(super) fn parameters() -> AuthenticationParameters {
    AuthenticationParameters {
        version: Version::V220,
        scheme: Scheme::Visa,
        category: AuthenticationCategory::Payment,
        challenge_preference: Some(ChallengePreference::Requested),
        decoupled_minutes: Some(5),
    }
}

pub(super) fn new_session(channel: DeviceChannel) -> ThreeDsSession {
    let kind = match channel {
        DeviceChannel::Requestor => ThreeDsSessionType::Merchant,
        DeviceChannel::App | DeviceChannel::Browser => ThreeDsSessionType::Customer,
    };
    ThreeDsSession::new(trans_id(SERVER_TRANS_ID), kind, channel, UnixSeconds(3600))
}

/// An `ARes` with all elements that its status requires.
pub(super) fn ares(server: &str, status: &str) -> ARes {
    let mut object = json!({
        "messageType": "ARes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": ACS_TRANS_ID, "dsTransID": DS_TRANS_ID, "acsReferenceNumber": "acs", "dsReferenceNumber": "ds",
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
    parse_message::<ARes>(
        object.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap()
}

/// An `RReq` with these ids: 3DS server, ACS, directory server.
pub(super) fn rreq(ids: [&str; 3], status: &str) -> RReq {
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
    parse_message::<RReq>(
        object.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap()
}

pub(super) fn cres(server: &str, acs: &str, status: Option<&str>) -> CRes {
    let mut object = json!({
        "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": server,
        "acsTransID": acs, "challengeCompletionInd": "N",
    });
    if let Some(status) = status {
        object["challengeCompletionInd"] = "Y".into();
        object["transStatus"] = status.into();
    }
    parse_message::<CRes>(
        object.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap()
}

pub(super) fn authenticate_event() -> StateMachineEvent {
    StateMachineEvent::Authenticate { parameters: parameters() }
}

pub(super) fn response_event(status: &str) -> StateMachineEvent {
    StateMachineEvent::Response { ares: Box::new(ares(SERVER_TRANS_ID, status)) }
}

pub(super) fn result_event(status: &str) -> StateMachineEvent {
    let result = Box::new(rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], status));
    StateMachineEvent::Result { result, secret: SecretCheck::Matches }
}

pub(super) fn challenge_event(status: &str) -> StateMachineEvent {
    StateMachineEvent::ChallengeNotification {
        response: Box::new(cres(SERVER_TRANS_ID, ACS_TRANS_ID, Some(status))),
    }
}

pub(super) fn method_event() -> StateMachineEvent {
    StateMachineEvent::MethodNotification { server_trans_id: trans_id(SERVER_TRANS_ID) }
}

/// Applies events at intervals of one second; none may be rejected. Returns the effects of the
/// last.
#[track_caller]
pub(super) fn apply_events(
    mut session: ThreeDsSession,
    events: &[StateMachineEvent],
) -> (ThreeDsSession, Vec<StateMachineEffect>) {
    let mut effects = Vec::new();
    for (event, second) in events.iter().zip(1..) {
        (session, effects) = session.step(event, UnixSeconds(second)).unwrap();
    }
    (session, effects)
}

#[track_caller]
pub(super) fn authentication_status(session: &ThreeDsSession) -> Status {
    session.authentication().unwrap().status
}
