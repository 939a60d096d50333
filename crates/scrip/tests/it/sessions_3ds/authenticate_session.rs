//! Authenticate Session.

use std::{io::Write, net::TcpStream, time::Duration};

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, Server, text},
    sessions_3ds::{
        requests::{SESSIONS, merchant_payment, payment},
        scripted_servers::{ACS_URL, VAULT_URL},
    },
};

fn authenticate(holder: &str) -> (String, Value) {
    let session = SHARED.browser_session(&ACME);
    let outcome = SHARED.authenticate(&ACME.private, &session, &payment(holder)).is(200);
    (session, outcome)
}

#[test]
fn a_success_without_a_challenge() {
    let (session, outcome) = authenticate("Frictionless");
    let exchange = SHARED.scripted.exchange(&session).unwrap();
    let found = SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{session}")).is(200);
    let expected = json!({
        "session_id": session, "token_intent_id": found["token_intent_id"],
        "threeds_version": "2.2.0",
        "acs_transaction_id": exchange.answered["acsTransID"],
        "ds_transaction_id": exchange.answered["dsTransID"],
        "acs_reference_number": "ACS-1", "ds_reference_number": "DS-1",
        "acs_operator_id": "OPERATOR-1",
        "authentication_value": exchange.answered["authenticationValue"],
        "authentication_status": "successful", "authentication_status_code": "Y",
        "directory_status_code": "Y", "eci": "05", "liability_shifted": true,
    });
    assert_eq!(outcome, expected);
}

/// The browser's own words are put into the forms of EMV; what it did not say was seen.
#[test]
fn the_message_says_what_was_sent_and_seen() {
    let (session, _) = authenticate("Frictionless");
    let asked = SHARED.scripted.exchange(&session).unwrap().asked;
    for (name, expected) in [
        ("threeDSServerTransID", session.as_str()),
        ("deviceChannel", "02"),
        ("messageCategory", "01"),
        ("threeDSRequestorAuthenticationInd", "01"),
        ("threeDSCompInd", "N"),
        ("browserLanguage", "en-US"),
        ("browserColorDepth", "24"),
        ("browserIP", "127.0.0.1"),
        ("browserTZ", "-330"),
        ("purchaseAmount", "8000"),
        ("transType", "01"),
    ] {
        assert_eq!(asked[name], expected, "{name}");
    }
    let url = format!("{VAULT_URL}{SESSIONS}/{session}/challenge-notification");
    assert_eq!(asked["notificationURL"], json!(url));
}

#[test]
fn a_challenge_tells_where_to_go_on() {
    let (_, outcome) = authenticate("Challenged");
    assert_eq!(outcome["authentication_status"], "challenge");
    assert_eq!(outcome["authentication_status_code"], "C");
    assert_eq!(outcome["acs_challenge_url"], ACS_URL);
    assert_eq!(outcome["acs_challenge_mandated"], "N");
    assert_eq!(outcome["authentication_challenge_type"], "static");
    assert!(outcome.get("eci").is_none() && outcome["liability_shifted"] == false);
}

#[test]
fn a_failure_says_why_and_extensions_are_shown() {
    let (_, outcome) = authenticate("Failed");
    assert_eq!(outcome["authentication_status"], "failed");
    assert_eq!(outcome["authentication_status_reason"], "card-authentication-failed");
    let extension = json!({"id": "X1", "name": "more", "critical": false, "data": {"score": 1.50}});
    assert_eq!(outcome["message_extensions"], json!([extension]));
}

#[test]
fn a_card_with_two_brands_goes_the_way_that_was_chosen() {
    for (chosen, brand) in [(None, "05"), (Some("Cartes Bancaires"), "05")] {
        let token = SHARED.numbered_token(&ACME, "4150580996517927");
        let body =
            json!({"token_id": token, "device_info": crate::sessions_3ds::requests::browser()});
        let session = text(&SHARED.session(&ACME.public, &body), "id");
        let mut request = payment("Frictionless");
        request["card_brand"] = "Mastercard".into();
        SHARED.authenticate(&ACME.private, &session, &request).invalid("card_brand");
        request["card_brand"] = chosen.into();
        let outcome = SHARED.authenticate(&ACME.private, &session, &request).is(200);
        assert_eq!(outcome["eci"], brand);
    }
}

#[test]
fn a_merchant_asks_without_a_device() {
    let body = json!({"token_id": SHARED.card_token(&ACME), "type": "merchant"});
    let session = text(&SHARED.session(&ACME.private, &body), "id");
    let request = merchant_payment("Frictionless");
    SHARED.authenticate(&ACME.private, &session, &request).is(200);
    let asked = SHARED.scripted.exchange(&session).unwrap().asked;
    assert_eq!((&asked["deviceChannel"], &asked["threeRIInd"]), (&json!("03"), &json!("11")));
    assert_eq!(asked["threeDSRequestorDecMaxTime"], "00010");
    assert!(asked.get("browserIP").is_none());
}

#[test]
fn a_session_is_spent_once_it_was_answered() {
    for holder in ["Frictionless", "Challenged", "Failed"] {
        let (session, _) = authenticate(holder);
        let again = SHARED.authenticate(&ACME.private, &session, &payment("Frictionless"));
        again.refused(409, "authenticated already");
    }
}

/// The status says what the client can do: 502 and 504 mean a new session.
#[test]
fn a_failure_of_the_others_is_told_as_theirs() {
    for (holder, status, source, then) in [
        ("Unreachable", "503", "Directory Server", 200),
        ("Silent", "504", "Directory Server", 409),
        ("Broken", "502", "Directory Server", 409),
        ("Garbled", "502", "Directory Server", 409),
        ("Refused", "403", "Directory Server", 409),
    ] {
        let session = SHARED.browser_session(&ACME);
        let reply = SHARED.authenticate(&ACME.private, &session, &payment(holder));
        let body = reply.is(424);
        assert_eq!(body["title"], "3DS Service Error", "{holder}");
        let error = &body["error"];
        assert_eq!(
            (&error["service_status"], &error["error_source"]),
            (&json!(status), &json!(source)),
            "{holder}"
        );
        assert_eq!(error["session_id"], json!(session));
        assert!(body.get("errors").is_none() && !reply.text.contains("4242"), "{}", reply.text);
        let again = SHARED.authenticate(&ACME.private, &session, &payment("Frictionless"));
        assert_eq!(again.status, then, "{holder}: {}", again.text);
    }
}

#[test]
fn an_idempotency_key_brings_back_the_outcome_and_asks_once() {
    let session = SHARED.browser_session(&ACME);
    let path = format!("{SESSIONS}/{session}/authenticate");
    let ask = || {
        let ask = SHARED.ask("POST", &path).key(&ACME.private).once(&session);
        ask.json(&payment("Frictionless")).send().is(200)
    };
    let first = ask();
    assert_eq!(ask(), first);
}

#[test]
fn types_are_told_by_their_paths() {
    let session = SHARED.browser_session(&ACME);
    let mut request = payment("Frictionless");
    request["purchase_info"]["amount"] = 8000.into();
    request["decoupled_challenge_max_time"] = "10".into();
    request["cardholder_info"]["billing_address"] = json!({"line1": ["4242424242424242"]});
    request["message_extensions"] = json!([{"id": 1}]);
    request["card_brand"] = 1.into();
    let reply = SHARED.authenticate(&ACME.private, &session, &request);
    for path in [
        "purchase_info.amount",
        "decoupled_challenge_max_time",
        "cardholder_info.billing_address.line1",
        "message_extensions[0].id",
        "card_brand",
    ] {
        reply.invalid(path);
    }
    assert!(!reply.text.contains("4242"), "{}", reply.text);
    // What is unknown is passed over, and it was not spent.
    let mut request = payment("Frictionless");
    request["metadata"] = json!({"a": 1});
    request["unknown"] = 1.into();
    SHARED.authenticate(&ACME.private, &session, &request).is(200);
}

/// What is sent cannot be taken back, so its outcome is written, whoever still waits for it.
#[test]
fn a_client_that_hangs_up_does_not_lose_the_outcome() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let session = server.browser_session(&keys);
    let body = payment("Held").to_string();
    let head = format!(
        "POST {SESSIONS}/{session}/authenticate HTTP/1.1\r\nHost: a\r\nBT-API-KEY: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        keys.private,
        body.len(),
    );
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let path = format!("{SESSIONS}/{session}");
    let until = |done: &dyn Fn(&Value) -> bool| {
        for _ in 0..10_000 {
            let found = server.fetch(&keys.private, &path).is(200);
            if done(&found) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it never came to that");
    };
    // It is written that it asks, and only then does the client go.
    until(&|it| it["modified_date"].is_string());
    drop(stream);
    while server.app.metrics.in_flight.get() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.scripted.gate.add_permits(1);
    let found = until(&|it| it.get("authentication").is_some());
    assert_eq!(found["authentication"]["authentication_status"], "successful");
}
