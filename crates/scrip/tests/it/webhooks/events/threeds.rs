//! Events of 3-D Secure sessions.

use scrip_core::types::EventType;
use scrip_threeds::encoding::encode;
use serde_json::{Value, json};

use crate::{
    harness::server::{SERVER, text_field},
    threeds_sessions::requests::{SESSIONS, browser_info, merchant_payment},
    webhooks::events::{Subscription, pick, subscribe},
};

/// The attributes of an event that every type has.
fn expected_session(subscription: &Subscription<'_>, session: &str) -> Value {
    json!({"id": session, "type": "customer", "tenant_id": subscription.keys.tenant.id.to_string()})
}

/// Expects exactly one event of a request without an API key.
#[track_caller]
fn expect_one_without_actor(subscription: &Subscription<'_>) -> Value {
    let event = subscription.expect_one();
    assert!(event["trace_id"].is_string(), "{event}");
    assert_eq!(event["data"].get("actor"), None, "{event}");
    event["data"].clone()
}

#[test]
fn created_threeds_session_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsSessionCreated);
    let key = &subscription.keys.public;
    let intent = SERVER.create_card_intent(&subscription.keys);
    let body = json!({"token_intent_id": intent, "device_info": browser_info()});
    let response = SERVER.post(key, SESSIONS, &body);
    let id = text_field(&response.expect_status(201), "id");
    let data = subscription.expect_one_of(key, &response);
    let session = &data["session"];
    assert_eq!((&session["id"], &session["token_intent_id"]), (&json!(id), &json!(intent)));
    assert_eq!((&session["type"], &session["device"]), (&json!("customer"), &json!("browser")));
    assert_eq!(data.as_object().unwrap().len(), 1);
}

#[test]
fn completed_method_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsMethodCompleted);
    let session = SERVER.create_browser_session(&subscription.keys);
    let data = encode(json!({"threeDSServerTransID": session}).to_string().as_bytes());
    for _ in 0..2 {
        let path = format!("{SESSIONS}/{session}/method-notification");
        assert_eq!(SERVER.post_form(&path, &[("threeDSMethodData", &data)]).status, 200);
    }
    let data = expect_one_without_actor(&subscription);
    assert_eq!(data["session"]["id"], json!(session));
}

#[test]
fn authenticated_session_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsAuthenticated);
    let key = &subscription.keys.private;
    let session = SERVER.create_browser_session(&subscription.keys);
    let response = SERVER.authenticate_as(key, &session, "Frictionless");
    response.expect_status(200);
    let data = subscription.expect_one_of(key, &response);
    assert_eq!(data["session"]["id"], json!(session));
    assert_eq!(data["session"]["authentication_status"], "successful");
}

#[test]
fn completed_challenge_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsChallengeCompleted);
    let session = SERVER.create_challenged_session(&subscription.keys);
    subscription.expect_none();
    SERVER.send_result(&session, "Y");
    let authentication = SERVER.directory_servers.exchange(&session).unwrap().response;
    let result = json!({
        "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": session,
        "acsTransID": authentication["acsTransID"], "challengeCompletionInd": "Y", "transStatus": "Y",
    });
    let result = encode(result.to_string().as_bytes());
    for _ in 0..2 {
        let path = format!("{SESSIONS}/{session}/challenge-notification");
        assert_eq!(SERVER.post_form(&path, &[("cres", &result)]).status, 200);
    }
    let data = expect_one_without_actor(&subscription);
    assert_eq!(data["session"]["id"], json!(session));
}

#[test]
fn decoupled_challenge_result_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsDecoupledChallengeNotification);
    let key = &subscription.keys.private;
    let intent = SERVER.create_card_intent(&subscription.keys);
    let body = json!({"token_intent_id": intent, "type": "merchant"});
    let session = SERVER.create_session_id(key, &body);
    SERVER.authenticate(key, &session, &merchant_payment("Decoupled")).expect_status(200);
    subscription.expect_none();
    SERVER.send_result(&session, "Y");
    let data = expect_one_without_actor(&subscription);
    assert_eq!(data["session"]["id"], json!(session));
}

#[test]
fn retrieved_challenge_result_has_one_event() {
    let subscription = subscribe(EventType::ThreeDsChallengeResultRetrieved);
    let key = &subscription.keys.private;
    let session = SERVER.create_challenged_session(&subscription.keys);
    SERVER.send_result(&session, "Y");
    subscription.expect_none();
    let response = SERVER.get_challenge_result(key, &session);
    response.expect_status(200);
    let data = subscription.expect_one_of(key, &response);
    let attributes = pick(&data["session"], &["id", "type", "tenant_id"]);
    assert_eq!(attributes, expected_session(&subscription, &session));
    assert_eq!(data.as_object().unwrap().len(), 1);
}
