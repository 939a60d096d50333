//! Update Session.

use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, text_field},
    threeds_sessions::requests::{SESSIONS, app_info},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}")
}

#[test]
fn app_updates_its_device_info_and_gets_the_same_response() {
    let body = json!({"token_id": SERVER.card_token(&ACME), "device": "app"});
    let created = SERVER.create_session(&ACME.public, &body);
    let id = text_field(&created, "id");
    // Without device data no message is sent.
    SERVER.authenticate_as(&ACME.private, &id, "Challenged").expect_invalid("device_info");
    let updated = SERVER.put(&ACME.public, &path(&id), &json!({"device_info": app_info()}));
    assert_eq!(updated.expect_status(200), created);
    let session_body = SERVER.get_path(&ACME.private, &path(&id)).expect_status(200);
    assert_eq!(session_body["device_info"], app_info());
    assert!(session_body["modified_date"].is_string());

    let outcome = SERVER.authenticate_as(&ACME.private, &id, "Challenged").expect_status(200);
    assert_eq!(outcome["sdk_transaction_id"], app_info()["sdk_transaction_id"]);
    assert_eq!(outcome["acs_signed_content"], "e30.e30.AA");
    let rendering_type = json!({"acsInterface": "01", "acsUiTemplate": "02"});
    assert_eq!(outcome["acs_rendering_type"], rendering_type);
    assert!(outcome.get("acs_challenge_url").is_none());
    let request = SERVER.directory_servers.exchange(&id).unwrap().request;
    assert_eq!(request["deviceChannel"], "01");
    assert_eq!(request["sdkEphemPubKey"]["crv"], "P-256");
    assert_eq!(request["deviceRenderOptions"]["sdkUiType"], json!(["01", "02", "03", "04"]));
    // After the authentication an update is rejected.
    SERVER.put(&ACME.public, &path(&id), &json!({"device_info": app_info()})).expect_status(409);
}

#[test]
fn sdk_ephemeral_public_key_may_be_an_object() {
    let id = SERVER.create_app_session(&ACME.public, &SERVER.create_card_intent(&ACME));
    let mut device = app_info();
    let key: Value =
        serde_json::from_str(device["sdk_ephemeral_public_key"].as_str().unwrap()).unwrap();
    device["sdk_ephemeral_public_key"] = key.clone();
    SERVER.put(&ACME.public, &path(&id), &json!({"device_info": device})).expect_status(200);
    SERVER.authenticate_as(&ACME.private, &id, "Frictionless").expect_status(200);
    assert_eq!(SERVER.directory_servers.exchange(&id).unwrap().request["sdkEphemPubKey"], key);
}

/// The app SDK reads the outcome too, and cannot parse objects there.
#[test]
fn app_response_has_no_message_extensions() {
    let id = SERVER.create_app_session(&ACME.public, &SERVER.create_card_intent(&ACME));
    SERVER.put(&ACME.public, &path(&id), &json!({"device_info": app_info()})).expect_status(200);
    let outcome = SERVER.authenticate_as(&ACME.private, &id, "Failed").expect_status(200);
    assert_eq!(outcome["authentication_status"], "failed");
    assert!(outcome.get("message_extensions").is_none(), "{outcome}");
}

#[test]
fn only_the_creator_can_update_an_app_session() {
    let body = json!({"device_info": app_info()});
    let id = SERVER.create_app_session(&ACME.public, &SERVER.create_card_intent(&ACME));
    SERVER.put(&ACME.private, &path(&id), &body).expect_problem(403, "created");
    let of_browser = SERVER.create_browser_session(&ACME);
    SERVER.put(&ACME.public, &path(&of_browser), &body).expect_invalid("device_info");
    SERVER.put(&ACME.public, &path("nobodys"), &body).expect_status(404);
    for (invalid_body, attribute) in [
        (json!({}), "device_info"),
        (json!({"device_info": null}), "device_info"),
        (json!({"device_info": "x"}), "device_info"),
        (json!({"device_info": {"sdk_max_timeout": 5}}), "device_info.sdk_max_timeout"),
        (json!({"device_info": {"sdk_encryption_data": "x".repeat(72 * 1024)}}), "device_info"),
    ] {
        SERVER.put(&ACME.public, &path(&id), &invalid_body).expect_invalid(attribute);
    }
}

#[test]
fn repeated_update_session_is_replayed() {
    let id = SERVER.create_app_session(&ACME.public, &SERVER.create_card_intent(&ACME));
    let send_update = |device: &Value| {
        let request =
            SERVER.request("PUT", &path(&id)).key(&ACME.public).idempotency_key("device-once");
        request.json(&json!({"device_info": device})).send()
    };
    let first = send_update(&app_info());
    assert_eq!(first.status, 200, "{}", first.text);
    SERVER.authenticate_as(&ACME.private, &id, "Frictionless").expect_status(200);
    // An update would be rejected now, but this is a replay.
    let repeated = send_update(&app_info());
    assert_eq!((repeated.status, &repeated.text), (200, &first.text));
    assert_eq!(send_update(&json!({})).status, 422, "a public key replays equal requests only");
}
