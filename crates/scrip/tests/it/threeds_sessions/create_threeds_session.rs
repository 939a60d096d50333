//! Create Session.

use std::sync::Arc;

use scrip_core::{Timestamp, policy::Quotas, threeds::NoDirectoryServers, types::time::Clock};
use scrip_testing::requests::{assert_members, with_members};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TestServer, card_body, text_field, unique_card_number},
    threeds_sessions::{
        requests::{SESSIONS, browser_info, notification_url},
        scripted_servers::METHOD_URL,
    },
};

#[track_caller]
fn expect_invalid(body: &Value, attribute: &str) {
    let response = SERVER.post(&ACME.private, SESSIONS, body);
    assert_eq!(response.status, 400, "{attribute}: {}", response.text);
    response.expect_invalid(attribute);
}

/// Sends the request of the official browser SDK, with the trailing slash of some samples.
#[test]
fn browser_creates_a_session_with_a_public_key() {
    let token = SERVER.card_token(&ACME);
    let body = json!({
        "token_id": token, "device": "browser", "device_info": browser_info(),
        "web_challenge_mode": "iframe", "metadata": {"order_id": 7, "lines": [{"a": null}]},
    });
    let request = SERVER.request("POST", "/3ds/sessions/").key(&ACME.public).json(&body);
    let response =
        request.header("Accept", "*/*").header("BT-TRACE-ID", "trace-of-a-browser").send();
    let session = response.expect_status(201);
    assert_eq!(response.headers["bt-trace-id"], "trace-of-a-browser");
    assert!(response.headers["access-control-expose-headers"].contains("bt-trace-id"));
    let id = text_field(&session, "id");
    let expected = json!({
        "id": id, "type": "customer", "pan_token_id": token, "token_id": token,
        "card_brand": "Visa", "cardBrand": "Visa",
        "method_url": METHOD_URL, "method_notification_url": notification_url(&id),
        "directory_server_id": "A000000003", "recommended_version": "2.2.0",
        "metadata": {"order_id": 7, "lines": [{"a": null}]},
    });
    assert_eq!(session, expected);
    assert_eq!(id, id.to_lowercase());

    let session_body = SERVER.get_session(&ACME.private, &id).expect_status(200);
    let device = &session_body["device_info"];
    let observed = json!({"browser_accept_header": "*/*", "browser_ip": "127.0.0.1",
        "browser_ip_address": "127.0.0.1"});
    assert_members(device, &observed);
    assert_eq!(session_body["web_challenge_mode"], "iframe");
}

/// Submitted browser data has precedence over observed data, under either name.
#[test]
fn submitted_browser_data_takes_precedence_over_observed_data() {
    for name in ["browser_ip", "browser_ip_address"] {
        let mut device = browser_info();
        device["browser_accept_header"] = "text/html".into();
        device[name] = "203.0.113.9".into();
        let body = json!({"token_id": SERVER.card_token(&ACME), "device_info": device,
            "web_challenge_mode": "redirect"});
        let id = SERVER.create_session_id(&ACME.private, &body);
        let session_body = SERVER.get_session(&ACME.private, &id).expect_status(200);
        let device = &session_body["device_info"];
        assert_eq!(device["browser_accept_header"], "text/html");
        assert_members(
            device,
            &json!({"browser_ip": "203.0.113.9", "browser_ip_address": "203.0.113.9"}),
        );
        assert_eq!(session_body["web_challenge_mode"], "redirect");
    }
}

/// The types of the app SDKs have required attributes. The response contains all of them.
#[test]
fn app_session_response_has_all_required_attributes() {
    for device in ["app", "mobile"] {
        let body = json!({"token_intent_id": SERVER.create_card_intent(&ACME), "device": device});
        let session = SERVER.create_session(&ACME.public, &body);
        assert_eq!(session["method_url"], "");
        for name in [
            "id",
            "cardBrand",
            "method_notification_url",
            "directory_server_id",
            "recommended_version",
        ] {
            assert!(session[name].as_str().is_some_and(|it| !it.is_empty()), "{name}");
        }
        assert_eq!(session["token_intent_id"], body["token_intent_id"]);
        assert!(session.get("token_id").is_none() && session.get("pan_token_id").is_none());
        let path = format!("{SESSIONS}/{}", text_field(&session, "id"));
        assert_eq!(SERVER.get_path(&ACME.private, &path).expect_status(200)["device"], "mobile");
    }
}

/// A merchant session has no device, so no device data is required.
#[test]
fn merchant_session_needs_only_a_card() {
    let token = SERVER.token_with_number(&ACME, "5424180011113336");
    let body = json!({"pan": token, "type": "merchant", "device_info": browser_info()});
    let session = SERVER.create_session(&ACME.private, &body);
    assert_members(&session, &json!({"type": "merchant", "card_brand": "Mastercard"}));
    assert_eq!(session["token_id"], json!(token));
    assert!(session.get("method_url").is_none());
    let path = format!("{SESSIONS}/{}", text_field(&session, "id"));
    let session_body = SERVER.get_path(&ACME.private, &path).expect_status(200);
    let has_device = ["device", "device_info"].map(|it| session_body.get(it).is_some());
    assert_eq!(has_device, [false; 2], "{session_body}");
    assert!(session_body.get("web_challenge_mode").is_none());
}

#[test]
fn card_with_two_brands_lists_both_brands() {
    let token = SERVER.token_with_number(&ACME, "4150580996517927");
    let session = SERVER.create_session(&ACME.public, &json!({"token_id": token}));
    assert_eq!(session["card_brand"], "Visa");
    assert_eq!(session["additional_card_brands"], json!(["Visa", "Cartes Bancaires"]));
}

/// Tests rule 1 of the session rules.
#[test]
fn exactly_one_card_reference_is_required() {
    let (token, intent) = (SERVER.card_token(&ACME), SERVER.create_card_intent(&ACME));
    for body in [
        json!({}),
        json!({"token_id": null}),
        json!({"token_id": token, "token_intent_id": intent}),
        json!({"token_id": token, "pan": token}),
        json!({"token_id": token, "pan": token, "token_intent_id": intent}),
    ] {
        expect_invalid(&body, "token_id");
    }
    for body in [
        json!({"token_id": token, "token_intent_id": null, "pan": null}),
        json!({"token_intent_id": intent}),
        json!({"pan": token}),
    ] {
        SERVER.create_session(&ACME.private, &body);
    }
}

/// Tests rules 2 and 3 of the session rules, and the types of the other attributes.
#[test]
fn invalid_threeds_session_attributes_are_named() {
    let token = SERVER.card_token(&ACME);
    let too_many_entries: serde_json::Map<_, _> =
        (0..51).map(|it| (it.to_string(), json!(it))).collect();
    for (name, value) in [
        ("type", json!("shop")),
        ("type", json!(1)),
        ("device", json!("phone")),
        ("device", json!(true)),
        ("web_challenge_mode", json!("popup")),
        ("metadata", json!("a")),
        ("metadata", json!(["a"])),
        ("metadata", too_many_entries.into()),
        ("metadata", json!({"a": "x".repeat(16 * 1024)})),
        ("device_info", json!([])),
        ("device_info", json!({"browser_user_agent": "x".repeat(72 * 1024)})),
    ] {
        expect_invalid(&json!({"token_id": token, (name): value}), name);
    }
    for (name, value, attribute) in [
        ("browser_tz", json!(60), "browser_tz"),
        ("browser_java_enabled", json!("no"), "browser_java_enabled"),
        ("browser_ip_address", json!(1), "browser_ip_address"),
        ("sdk_render_options", json!({"sdk_ui_type": [1]}), "sdk_render_options.sdk_ui_type[0]"),
    ] {
        let body = json!({"token_id": token, "device_info": {name: value}});
        expect_invalid(&body, &format!("device_info.{attribute}"));
    }
    let no_card = json!({"type": "token", "data": 1});
    let token_without_card = SERVER.create_token_id(&ACME.private, &no_card);
    let intent_without_card = SERVER.create_intent_id(&ACME.private, &no_card);
    for (name, value) in [
        ("token_id", json!(7)),
        ("token_intent_id", json!("nobodys")),
        ("token_id", json!("nobodys")),
        ("token_id", json!(token_without_card)),
        ("token_intent_id", json!(intent_without_card)),
    ] {
        expect_invalid(&json!({ name: value }), name);
    }
    // Unknown attributes and null values are ignored.
    let body = json!({"token_id": token, "type": null, "device": null, "device_info": null,
        "web_challenge_mode": null, "metadata": null, "unknown": {"a": 1}});
    SERVER.create_session(&ACME.private, &body);
}

/// A card number in a wrong attribute is not repeated.
#[test]
fn create_session_errors_do_not_repeat_submitted_values() {
    let number = unique_card_number();
    for body in [
        json!({"pan": number}),
        json!({"token_id": number, "pan": number}),
        json!({"token_id": "abc", "type": number}),
        json!({"token_id": "abc", "device_info": {"browser_tz": [number]}}),
    ] {
        let response = SERVER.post(&ACME.private, SESSIONS, &body);
        assert_eq!(response.status, 400);
        assert!(!response.text.contains(&number), "{}", response.text);
    }
}

/// The browser SDK recognizes an unsupported card by exactly this error.
#[test]
fn card_outside_all_ranges_is_424_with_the_sdk_error() {
    let token = SERVER.token_with_number(&ACME, "6011361000001115");
    let response = SERVER.post(&ACME.public, SESSIONS, &json!({"token_id": token}));
    assert_eq!(response.headers["content-type"], "application/problem+json");
    assert_eq!(response.headers["access-control-allow-origin"], "*");
    let body = response.expect_status(424);
    assert_eq!((&body["title"], &body["status"]), (&json!("3DS Service Error"), &json!(424)));
    assert!(body["detail"].is_string() && body["type"] == "about:blank");
    let expected = ["Cardholder Account Number is not in a range belonging to Issuer."];
    assert_eq!(body["errors"]["The card was not supported by any card schemes"], json!(expected));
    let error = &body["error"];
    assert_eq!(error["service_status"], "404");
    assert_eq!(error["error_source"], "Directory Server");
    assert!(error["message"].is_string() && error["detail"].is_string());
    assert!(error.get("session_id").is_none());
    assert!(!response.text.contains("6011"), "{}", response.text);
}

#[test]
fn create_session_without_directory_servers_is_424() {
    let server = TestServer::start_with(|app| {
        app.vault.directory_servers = Arc::new(NoDirectoryServers::default())
    });
    let keys = server.create_default_tenant();
    let token = server.card_token(&keys);
    let body = server.post(&keys.public, SESSIONS, &json!({"token_id": token})).expect_status(424);
    assert_eq!(body["error"]["error_source"], "3DS Server");
    assert!(body.get("errors").is_none());
}

#[test]
fn tenant_without_threeds_access_is_denied() {
    let keys = SERVER.create_default_tenant();
    let session = SERVER.create_browser_session(&keys);
    SERVER.set_quotas(&keys.tenant, |it| Quotas { threeds_access: false, ..it });
    let token = SERVER.card_token(&keys);
    let create_response = SERVER.post(&keys.public, SESSIONS, &json!({"token_id": token}));
    create_response.expect_problem(403, "3-D Secure");
    let path = format!("{SESSIONS}/{session}");
    SERVER.get_path(&keys.private, &path).expect_problem(403, "3-D Secure");
    SERVER.authenticate_as(&keys.private, &session, "Ada").expect_problem(403, "3-D Secure");
}

#[test]
fn repeated_create_threeds_session_replays_the_first_session() {
    let body = json!({"token_intent_id": SERVER.create_card_intent(&ACME)});
    let request =
        || SERVER.post_once(&ACME.public, SESSIONS, "a-session", &body).expect_status(201);
    let first = request();
    assert_eq!(request(), first);
    assert_ne!(SERVER.create_session(&ACME.public, &body)["id"], first["id"]);
}

#[test]
fn threeds_preflight_allows_get_post_and_put() {
    for path in [SESSIONS.to_owned(), format!("{SESSIONS}/a"), format!("{SESSIONS}/a/authenticate")]
    {
        let request = SERVER.request("OPTIONS", &path).header("Origin", "null");
        let expected = "bt-api-key,bt-trace-id,bt-idempotency-key,content-type";
        let response = request.header("Access-Control-Request-Headers", expected).send();
        assert_eq!(response.status, 204);
        assert_eq!(response.headers["access-control-allow-origin"], "*");
        for method in ["GET", "POST", "PUT"] {
            assert!(response.headers["access-control-allow-methods"].contains(method));
        }
        assert_eq!(response.headers["access-control-allow-headers"], expected);
    }
}

/// The session expires with its card, and after one day at the latest.
#[test]
fn threeds_session_expires_with_its_card_and_within_a_day() {
    let (server, keys) = TestServer::start_with_tenant();
    let expiry = json!({"expires_at": "2099-01-01T00:00:00+00:00"});
    let expiring_card = with_members(card_body(&unique_card_number()), &expiry);
    let token = server.create_token_id(&keys.private, &expiring_card);
    let id = server.create_session_id(&keys.private, &json!({"token_id": token}));
    let session_path = format!("{SESSIONS}/{id}");
    let session_body = server.get_path(&keys.private, &session_path).expect_status(200);
    let expires_at =
        Timestamp::parse_expiry(&text_field(&session_body, "expiration_date")).unwrap();
    let minutes = (expires_at.unix_ms - server.clock.now().unix_ms) / 60_000;
    assert!((23 * 60..=24 * 60).contains(&minutes), "{minutes}");
    let token = server.card_token(&keys);
    let id = server.create_session_id(&keys.private, &json!({"token_id": token}));
    let path = format!("{SESSIONS}/{id}");
    server.clock.advance(std::time::Duration::from_secs(3590));
    server.get_path(&keys.private, &path).expect_status(200);
    server.clock.advance(std::time::Duration::from_secs(11));
    server.get_path(&keys.private, &path).expect_status(404);
    server.get_path(&keys.private, &session_path).expect_status(200);
    server.clock.advance(std::time::Duration::from_secs(23 * 3600));
    server.get_path(&keys.private, &session_path).expect_status(404);
}
