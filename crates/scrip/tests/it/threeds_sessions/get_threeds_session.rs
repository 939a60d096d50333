//! Get Session.

use scrip_testing::requests::assert_members;
use serde_json::json;

use crate::{
    harness::server::{ACME, SERVER, text_field},
    threeds_sessions::{
        requests::{SESSIONS, browser_info},
        scripted_servers::METHOD_URL,
    },
};

#[test]
fn get_session_returns_every_attribute_and_alias() {
    let token = SERVER.card_token(&ACME);
    let body = json!({"token_id": token, "device_info": browser_info(), "metadata": {"a": 1}});
    let id = SERVER.create_session_id(&ACME.private, &body);
    let path = format!("{SESSIONS}/{id}");
    let session_body = SERVER.get_path(&ACME.private, &path).expect_status(200);
    let expected = json!({
        "id": id, "tenant_id": ACME.tenant.id.to_string(), "token_id": token,
        "pan_token_id": token, "device": "browser", "card_brand": "Visa", "metadata": {"a": 1},
    });
    assert_members(&session_body, &expected);
    for name in ["expiration_date", "created_date", "created_by"] {
        assert!(session_body[name].is_string(), "{name}");
    }
    let expiration_date = session_body["expiration_date"].clone();
    let version = json!({
        "recommended_version": "2.2.0",
        "available_version": ["2.1.0", "2.2.0"], "available_versions": ["2.1.0", "2.2.0"],
        "earliest_acs_supported_version": "2.1.0", "latest_acs_supported_version": "2.2.0",
        "earliest_ds_supported_version": "2.1.0", "latest_ds_supported_version": "2.2.0",
        "acs_information": ["threeds-auth-available", "threeds-attempts-supported"],
    });
    assert_eq!(session_body["version"], version);
    assert_eq!(session_body["method"], json!({"method_url": METHOD_URL}));
    assert_eq!(session_body["device_info"]["browser_language"], "en-US@posix");
    for name in [
        "authentication",
        "modified_date",
        "modified_by",
        "additional_card_brands",
        "token_intent_id",
    ] {
        assert!(session_body.get(name).is_none(), "{name}");
    }

    let outcome = SERVER.authenticate_as(&ACME.private, &id, "Frictionless").expect_status(200);
    let session_body = SERVER.get_path(&ACME.private, &path).expect_status(200);
    assert_eq!(session_body["authentication"], outcome);
    // No method notification has arrived.
    let method = json!({"method_url": METHOD_URL, "method_completion_indicator": "N"});
    assert_eq!(session_body["method"], method);
    assert!(session_body["modified_date"].is_string() && session_body["modified_by"].is_string());
    // Without effect: an authenticated session does not expire.
    assert_eq!(session_body["expiration_date"], expiration_date);
}

#[test]
fn method_completion_is_unavailable_without_a_method_url() {
    let token = SERVER.token_with_number(&ACME, "5204247750001471");
    let session = SERVER.create_session(&ACME.public, &json!({"token_id": token}));
    assert!(session.get("method_url").is_none());
    let session_body =
        SERVER.get_session(&ACME.private, &text_field(&session, "id")).expect_status(200);
    assert_eq!(session_body["method"], json!({"method_completion_indicator": "U"}));
}

#[test]
fn unknown_session_is_404() {
    for id in ["8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "nobodys", "8a880dc0"] {
        SERVER.get_session(&ACME.private, id).expect_status(404);
    }
}
