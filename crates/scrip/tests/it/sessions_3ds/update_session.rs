//! Update Session.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, text},
    sessions_3ds::requests::{SESSIONS, app},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}")
}

#[test]
fn an_app_tells_of_its_device_and_is_told_the_same_as_before() {
    let body = json!({"token_id": SHARED.card_token(&ACME), "device": "app"});
    let created = SHARED.session(&ACME.public, &body);
    let id = text(&created, "id");
    // Without it, nothing is sent.
    SHARED.authenticate(&ACME.private, &id, &payment("Challenged")).invalid("device_info");
    let updated = SHARED.put(&ACME.public, &path(&id), &json!({"device_info": app()})).is(200);
    assert_eq!(updated, created);
    let found = SHARED.fetch(&ACME.private, &path(&id)).is(200);
    assert_eq!(found["device_info"], app());
    assert!(found["modified_date"].is_string());

    let outcome = SHARED.authenticate(&ACME.private, &id, &payment("Challenged")).is(200);
    assert_eq!(outcome["sdk_transaction_id"], app()["sdk_transaction_id"]);
    assert_eq!(outcome["acs_signed_content"], "e30.e30.AA");
    let rendering = json!({"acsInterface": "01", "acsUiTemplate": "02"});
    assert_eq!(outcome["acs_rendering_type"], rendering);
    assert!(outcome.get("acs_challenge_url").is_none());
    let asked = SHARED.scripted.exchange(&id).unwrap().asked;
    assert_eq!(asked["deviceChannel"], "01");
    assert_eq!(asked["sdkEphemPubKey"]["crv"], "P-256");
    assert_eq!(asked["deviceRenderOptions"]["sdkUiType"], json!(["01", "02", "03", "04"]));
    // Too late.
    SHARED.put(&ACME.public, &path(&id), &json!({"device_info": app()})).is(409);
}

#[test]
fn the_key_of_an_app_may_be_an_object() {
    let id = SHARED.app_session(&ACME.public, &SHARED.card_intent(&ACME));
    let mut device = app();
    let key: Value =
        serde_json::from_str(device["sdk_ephemeral_public_key"].as_str().unwrap()).unwrap();
    device["sdk_ephemeral_public_key"] = key.clone();
    SHARED.put(&ACME.public, &path(&id), &json!({"device_info": device})).is(200);
    SHARED.authenticate(&ACME.private, &id, &payment("Frictionless")).is(200);
    assert_eq!(SHARED.scripted.exchange(&id).unwrap().asked["sdkEphemPubKey"], key);
}

/// Its SDK reads the outcome too, and cannot read objects there.
#[test]
fn an_app_is_shown_no_extensions() {
    let id = SHARED.app_session(&ACME.public, &SHARED.card_intent(&ACME));
    SHARED.put(&ACME.public, &path(&id), &json!({"device_info": app()})).is(200);
    let outcome = SHARED.authenticate(&ACME.private, &id, &payment("Failed")).is(200);
    assert_eq!(outcome["authentication_status"], "failed");
    assert!(outcome.get("message_extensions").is_none(), "{outcome}");
}

#[test]
fn only_its_creator_changes_it_and_only_for_an_app() {
    let body = json!({"device_info": app()});
    let id = SHARED.app_session(&ACME.public, &SHARED.card_intent(&ACME));
    SHARED.put(&ACME.private, &path(&id), &body).refused(403, "created");
    let of_browser = SHARED.browser_session(&ACME);
    SHARED.put(&ACME.public, &path(&of_browser), &body).invalid("device_info");
    SHARED.put(&ACME.public, &path("nobodys"), &body).is(404);
    for (wrong, attribute) in [
        (json!({}), "device_info"),
        (json!({"device_info": null}), "device_info"),
        (json!({"device_info": "x"}), "device_info"),
        (json!({"device_info": {"sdk_max_timeout": 5}}), "device_info.sdk_max_timeout"),
        (json!({"device_info": {"sdk_encryption_data": "x".repeat(72 * 1024)}}), "device_info"),
    ] {
        SHARED.put(&ACME.public, &path(&id), &wrong).invalid(attribute);
    }
}

#[test]
fn a_repeated_update_has_the_first_answer() {
    let id = SHARED.app_session(&ACME.public, &SHARED.card_intent(&ACME));
    let update = |device: &Value| {
        let ask = SHARED.ask("PUT", &path(&id)).key(&ACME.public).once("device-once");
        ask.json(&json!({"device_info": device})).send()
    };
    let first = update(&app());
    assert_eq!(first.status, 200, "{}", first.text);
    SHARED.authenticate(&ACME.private, &id, &payment("Frictionless")).is(200);
    // Too late for an update, and this is none.
    let again = update(&app());
    assert_eq!((again.status, &again.text), (200, &first.text));
    assert_eq!(update(&json!({})).status, 422, "a public key replays equal requests only");
}
