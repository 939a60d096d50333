//! Events of access sessions.

use scrip_core::{policy::AccessSessionId, types::EventType};
use serde_json::{Value, json};

use crate::{
    harness::server::{SERVER, TestResponse, text_field},
    webhooks::events::{Subscription, describe_caller, pick},
};

/// The common attributes of both events. The id is the digest of the key, never the key.
fn expected_session(subscription: &Subscription<'_>, created: &Value) -> Value {
    let directory = SERVER.app.directory.load();
    let digest = directory.as_ref().unwrap().digest(&text_field(created, "session_key"));
    let application = describe_caller(&SERVER, &subscription.keys.public);
    json!({
        "id": AccessSessionId(digest).to_string(),
        "created_by": application["id"],
        "expires_at": created["expires_at"],
        "issued_to_application": pick(&application, &["id", "name"]),
    })
}

fn create_session(subscription: &Subscription<'_>) -> TestResponse {
    SERVER.post_empty(&subscription.keys.public, "/sessions")
}

/// Removes the time of the creation, which no response shows.
fn remove_created_at(data: &mut Value) {
    let created_at = data["session"].as_object_mut().unwrap().remove("created_at");
    assert!(created_at.is_some_and(|it| it.is_string()));
}

#[test]
fn created_session_has_one_event() {
    let subscription = Subscription::new(&SERVER, EventType::SessionCreated);
    let response = create_session(&subscription);
    let created = response.expect_status(201);
    let mut data = subscription.expect_one_of(&subscription.keys.public, &response);
    remove_created_at(&mut data);
    assert_eq!(data, json!({"session": expected_session(&subscription, &created)}));
}

#[test]
fn authorized_session_has_one_event() {
    let subscription = Subscription::new(&SERVER, EventType::SessionAuthorized);
    let created = create_session(&subscription).expect_status(201);
    let rule = json!({
        "description": "d", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:read"],
    });
    let body = json!({"nonce": created["nonce"], "rules": [rule]});
    let key = &subscription.keys.private;
    let response = SERVER.post(key, "/sessions/authorize", &body);
    response.expect_status(204);
    SERVER.post(key, "/sessions/authorize", &body).expect_status(409);
    let mut data = subscription.expect_one_of(key, &response);
    remove_created_at(&mut data);
    let mut expected = expected_session(&subscription, &created);
    (expected["permissions"], expected["rules"]) = (json!([]), json!([rule]));
    assert_eq!(data, json!({"session": expected}));
}
