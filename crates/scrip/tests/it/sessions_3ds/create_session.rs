//! Create Session.

use std::sync::Arc;

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{Mandate, Quotas, Settings},
    threeds::NoDirectoryServers,
    time::{Clock, Timestamp},
};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, Server, card, new_number, text},
    sessions_3ds::{
        requests::{SESSIONS, browser, notification_url, payment},
        scripted_servers::METHOD_URL,
    },
};

#[track_caller]
fn refuse(body: &Value, attribute: &str) {
    SHARED.post(&ACME.private, SESSIONS, body).invalid(attribute);
}

/// What the official script of browsers sends, with a slash that some samples have.
#[test]
fn a_browser_creates_one_with_a_public_key() {
    let token = SHARED.card_token(&ACME);
    let body = json!({
        "token_id": token, "device": "browser", "device_info": browser(),
        "web_challenge_mode": "iframe", "metadata": {"order_id": 7, "lines": [{"a": null}]},
    });
    let ask = SHARED.ask("POST", "/3ds/sessions/").key(&ACME.public).json(&body);
    let reply = ask.header("Accept", "*/*").header("BT-TRACE-ID", "trace-of-a-browser").send();
    let session = reply.is(201);
    assert_eq!(reply.headers["bt-trace-id"], "trace-of-a-browser");
    assert!(reply.headers["access-control-expose-headers"].contains("bt-trace-id"));
    let id = text(&session, "id");
    let expected = json!({
        "id": id, "type": "customer", "pan_token_id": token, "token_id": token,
        "card_brand": "Visa", "cardBrand": "Visa",
        "method_url": METHOD_URL, "method_notification_url": notification_url(&id),
        "directory_server_id": "A000000003", "recommended_version": "2.2.0",
        "metadata": {"order_id": 7, "lines": [{"a": null}]},
    });
    assert_eq!(session, expected);
    assert_eq!(id, id.to_lowercase());

    let found = SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{id}")).is(200);
    let device = &found["device_info"];
    assert_eq!(device["browser_accept_header"], "*/*");
    assert_eq!(device["browser_ip"], "127.0.0.1");
    assert_eq!(device["browser_ip_address"], "127.0.0.1");
    assert_eq!(found["web_challenge_mode"], "iframe");
}

/// Whoever knows better than the server what the browser is like says so, by either name.
#[test]
fn what_the_client_tells_of_a_browser_goes_before_what_was_seen() {
    for name in ["browser_ip", "browser_ip_address"] {
        let mut device = browser();
        device["browser_accept_header"] = "text/html".into();
        device[name] = "203.0.113.9".into();
        let body = json!({"token_id": SHARED.card_token(&ACME), "device_info": device,
            "web_challenge_mode": "redirect"});
        let id = text(&SHARED.session(&ACME.private, &body), "id");
        let found = SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{id}")).is(200);
        let device = &found["device_info"];
        assert_eq!(device["browser_accept_header"], "text/html");
        assert_eq!(
            (&device["browser_ip"], &device["browser_ip_address"]),
            (&json!("203.0.113.9"), &json!("203.0.113.9"))
        );
        assert_eq!(found["web_challenge_mode"], "redirect");
    }
}

/// Where the strict types of apps have no room for absence, there is none.
#[test]
fn an_app_is_told_of_everything_it_needs() {
    for device in ["app", "mobile"] {
        let body = json!({"token_intent_id": SHARED.card_intent(&ACME), "device": device});
        let session = SHARED.session(&ACME.public, &body);
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
        let path = format!("{SESSIONS}/{}", text(&session, "id"));
        assert_eq!(SHARED.fetch(&ACME.private, &path).is(200)["device"], "mobile");
    }
}

/// Nobody sits at a device, so none is told of.
#[test]
fn a_merchant_needs_a_card_and_nothing_else() {
    let token = SHARED.numbered_token(&ACME, "5424180011113336");
    let body = json!({"pan": token, "type": "merchant", "device_info": browser()});
    let session = SHARED.session(&ACME.private, &body);
    assert_eq!(
        (&session["type"], &session["card_brand"]),
        (&json!("merchant"), &json!("Mastercard"))
    );
    assert_eq!(session["token_id"], json!(token));
    assert!(session.get("method_url").is_none());
    let path = format!("{SESSIONS}/{}", text(&session, "id"));
    let found = SHARED.fetch(&ACME.private, &path).is(200);
    assert!(found.get("device").is_none() && found.get("device_info").is_none(), "{found}");
    assert!(found.get("web_challenge_mode").is_none());
}

#[test]
fn a_card_with_two_brands_tells_of_both() {
    let token = SHARED.numbered_token(&ACME, "4150580996517927");
    let session = SHARED.session(&ACME.public, &json!({"token_id": token}));
    assert_eq!(session["card_brand"], "Visa");
    assert_eq!(session["additional_card_brands"], json!(["Visa", "Cartes Bancaires"]));
}

/// Rule 1.
#[test]
fn exactly_one_card_is_named() {
    let (token, intent) = (SHARED.card_token(&ACME), SHARED.card_intent(&ACME));
    refuse(&json!({}), "token_id");
    refuse(&json!({"token_id": null}), "token_id");
    refuse(&json!({"token_id": token, "token_intent_id": intent}), "token_id");
    refuse(&json!({"token_id": token, "pan": token}), "token_id");
    refuse(&json!({"token_id": token, "pan": token, "token_intent_id": intent}), "token_id");
    let nulls = json!({"token_id": token, "token_intent_id": null, "pan": null});
    SHARED.session(&ACME.private, &nulls);
    SHARED.session(&ACME.private, &json!({"token_intent_id": intent}));
    SHARED.session(&ACME.private, &json!({"pan": token}));
}

/// Rules 2 and 3, and the types of the rest.
#[test]
fn what_is_not_as_it_must_be_is_named() {
    let token = SHARED.card_token(&ACME);
    let check = |name: &str, value: Value, attribute: &str| {
        refuse(&json!({"token_id": token, (name): value}), attribute);
    };
    check("type", json!("shop"), "type");
    check("type", json!(1), "type");
    check("device", json!("phone"), "device");
    check("device", json!(true), "device");
    check("web_challenge_mode", json!("popup"), "web_challenge_mode");
    check("metadata", json!("a"), "metadata");
    check("metadata", json!(["a"]), "metadata");
    let many: serde_json::Map<_, _> = (0..51).map(|it| (it.to_string(), json!(it))).collect();
    check("metadata", many.into(), "metadata");
    check("metadata", json!({"a": "x".repeat(16 * 1024)}), "metadata");
    check("device_info", json!([]), "device_info");
    check("device_info", json!({"browser_user_agent": "x".repeat(72 * 1024)}), "device_info");
    check("device_info", json!({"browser_tz": 60}), "device_info.browser_tz");
    check("device_info", json!({"browser_java_enabled": "no"}), "device_info.browser_java_enabled");
    check("device_info", json!({"browser_ip_address": 1}), "device_info.browser_ip_address");
    check(
        "device_info",
        json!({"sdk_render_options": {"sdk_ui_type": [1]}}),
        "device_info.sdk_render_options.sdk_ui_type[0]",
    );
    refuse(&json!({"token_id": 7}), "token_id");
    refuse(&json!({"token_intent_id": "nobodys"}), "token_intent_id");
    refuse(&json!({"token_id": "nobodys"}), "token_id");
    let no_card = json!({"type": "token", "data": 1});
    refuse(&json!({"token_id": text(&SHARED.created(&ACME.private, &no_card), "id")}), "token_id");
    let intent = SHARED.post(&ACME.private, "/token-intents", &no_card).is(201);
    refuse(&json!({"token_intent_id": intent["id"]}), "token_intent_id");
    // What is unknown is passed over, and null says nothing.
    let body = json!({"token_id": token, "type": null, "device": null, "device_info": null,
        "web_challenge_mode": null, "metadata": null, "unknown": {"a": 1}});
    SHARED.session(&ACME.private, &body);
}

/// A card number in the wrong place is not repeated.
#[test]
fn no_refusal_repeats_what_was_sent() {
    let number = new_number();
    for body in [
        json!({"pan": number}),
        json!({"token_id": number, "pan": number}),
        json!({"token_id": "abc", "type": number}),
        json!({"token_id": "abc", "device_info": {"browser_tz": [number]}}),
    ] {
        let reply = SHARED.post(&ACME.private, SESSIONS, &body);
        assert_eq!(reply.status, 400);
        assert!(!reply.text.contains(&number), "{}", reply.text);
    }
}

/// In the very shape by which the script of browsers knows that the card is the reason.
#[test]
fn a_card_that_no_scheme_has_is_a_failure_of_the_service() {
    let token = SHARED.numbered_token(&ACME, "6011361000001115");
    let reply = SHARED.post(&ACME.public, SESSIONS, &json!({"token_id": token}));
    assert_eq!(reply.headers["content-type"], "application/problem+json");
    assert_eq!(reply.headers["access-control-allow-origin"], "*");
    let body = reply.is(424);
    assert_eq!((&body["title"], &body["status"]), (&json!("3DS Service Error"), &json!(424)));
    assert!(body["detail"].is_string() && body["type"] == "about:blank");
    let expected = ["Cardholder Account Number is not in a range belonging to Issuer."];
    assert_eq!(body["errors"]["The card was not supported by any card schemes"], json!(expected));
    let error = &body["error"];
    assert_eq!(error["service_status"], "404");
    assert_eq!(error["error_source"], "Directory Server");
    assert!(error["message"].is_string() && error["detail"].is_string());
    assert!(error.get("session_id").is_none());
    assert!(!reply.text.contains("6011"), "{}", reply.text);
}

#[test]
fn without_a_directory_server_there_is_no_session() {
    let server =
        Server::with(|app| app.vault.directory_servers = Arc::new(NoDirectoryServers::default()));
    let keys = server.tenant(Settings::default());
    let token = server.card_token(&keys);
    let body = server.post(&keys.public, SESSIONS, &json!({"token_id": token})).is(424);
    assert_eq!(body["error"]["error_source"], "3DS Server");
    assert!(body.get("errors").is_none());
}

#[test]
fn a_tenant_without_access_is_told_so() {
    let keys = SHARED.tenant(Settings::default());
    let session = SHARED.browser_session(&keys);
    let edit = |quotas| Quotas { threeds_access: false, ..quotas };
    let mandate = Mandate::of_operator(Arc::clone(&keys.tenant));
    SHARED.runtime.block_on(async {
        set_tenant_quotas(&SHARED.app.vault, mandate, Box::new(edit)).await.unwrap();
        SHARED.app.reload().await.unwrap();
    });
    let token = SHARED.card_token(&keys);
    let new = SHARED.post(&keys.public, SESSIONS, &json!({"token_id": token}));
    new.refused(403, "3-D Secure");
    let path = format!("{SESSIONS}/{session}");
    SHARED.fetch(&keys.private, &path).refused(403, "3-D Secure");
    SHARED.authenticate(&keys.private, &session, &payment("Ada")).refused(403, "3-D Secure");
}

#[test]
fn an_idempotency_key_brings_back_the_first_session() {
    let body = json!({"token_intent_id": SHARED.card_intent(&ACME)});
    let ask = || {
        let ask = SHARED.ask("POST", SESSIONS).key(&ACME.public).once("a-session").json(&body);
        ask.send().is(201)
    };
    let first = ask();
    assert_eq!(ask(), first);
    assert_ne!(SHARED.session(&ACME.public, &body)["id"], first["id"]);
}

#[test]
fn a_preflight_lets_browsers_ask_and_change() {
    for path in [SESSIONS.to_owned(), format!("{SESSIONS}/a"), format!("{SESSIONS}/a/authenticate")]
    {
        let ask = SHARED.ask("OPTIONS", &path).header("Origin", "null");
        let wanted = "bt-api-key,bt-trace-id,bt-idempotency-key,content-type";
        let reply = ask.header("Access-Control-Request-Headers", wanted).send();
        assert_eq!(reply.status, 204);
        assert_eq!(reply.headers["access-control-allow-origin"], "*");
        for method in ["GET", "POST", "PUT"] {
            assert!(reply.headers["access-control-allow-methods"].contains(method));
        }
        assert_eq!(reply.headers["access-control-allow-headers"], wanted);
    }
}

/// The card's own end is the session's, within a day.
#[test]
fn session_ends_with_its_card_or_after_an_hour_and_within_a_day() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let mut ending = card(&new_number());
    ending["expires_at"] = "2099-01-01T00:00:00+00:00".into();
    let token = text(&server.created(&keys.private, &ending), "id");
    let id = text(&server.session(&keys.private, &json!({"token_id": token})), "id");
    let long = format!("{SESSIONS}/{id}");
    let found = server.fetch(&keys.private, &long).is(200);
    let end = Timestamp::parse_expiry(&text(&found, "expiration_date")).unwrap();
    let minutes = (end.unix_ms - server.clock.now().unix_ms) / 60_000;
    assert!((23 * 60..=24 * 60).contains(&minutes), "{minutes}");
    let token = server.card_token(&keys);
    let id = text(&server.session(&keys.private, &json!({"token_id": token})), "id");
    let path = format!("{SESSIONS}/{id}");
    server.clock.advance(std::time::Duration::from_secs(3590));
    server.fetch(&keys.private, &path).is(200);
    server.clock.advance(std::time::Duration::from_secs(11));
    server.fetch(&keys.private, &path).is(404);
    server.fetch(&keys.private, &long).is(200);
    server.clock.advance(std::time::Duration::from_secs(23 * 3600));
    server.fetch(&keys.private, &long).is(404);
}
