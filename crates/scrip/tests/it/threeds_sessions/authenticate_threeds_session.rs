//! Authenticate Session.

use std::{io::Write, net::TcpStream, time::Duration};

use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TestResponse, TestServer},
    threeds_sessions::{
        requests::{SESSIONS, browser_info, merchant_payment, payment},
        scripted_servers::{ACS_URL, VAULT_URL},
    },
};

fn create_and_authenticate(cardholder: &str) -> (String, Value) {
    let session = SERVER.create_browser_session(&ACME);
    let outcome = SERVER.authenticate_as(&ACME.private, &session, cardholder).expect_status(200);
    (session, outcome)
}

#[test]
fn frictionless_authentication_succeeds() {
    let (session, outcome) = create_and_authenticate("Frictionless");
    let exchange = SERVER.directory_servers.exchange(&session).unwrap();
    let session_body = SERVER.get_session(&ACME.private, &session).expect_status(200);
    let expected = json!({
        "session_id": session, "token_intent_id": session_body["token_intent_id"],
        "threeds_version": "2.2.0",
        "acs_transaction_id": exchange.response["acsTransID"],
        "ds_transaction_id": exchange.response["dsTransID"],
        "acs_reference_number": "ACS-1", "ds_reference_number": "DS-1",
        "acs_operator_id": "OPERATOR-1",
        "authentication_value": exchange.response["authenticationValue"],
        "authentication_status": "successful", "authentication_status_code": "Y",
        "directory_status_code": "Y", "eci": "05", "liability_shifted": true,
    });
    assert_eq!(outcome, expected);
}

/// Submitted browser data is converted to EMV values. Data observed by the server completes it.
#[test]
fn authentication_message_contains_the_request_and_observed_browser_data() {
    let (session, _) = create_and_authenticate("Frictionless");
    let request = SERVER.directory_servers.exchange(&session).unwrap().request;
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
        assert_eq!(request[name], expected, "{name}");
    }
    let url = format!("{VAULT_URL}{SESSIONS}/{session}/challenge-notification");
    assert_eq!(request["notificationURL"], json!(url));
}

#[test]
fn challenge_response_contains_the_acs_url() {
    let (_, outcome) = create_and_authenticate("Challenged");
    let expected = json!({
        "authentication_status": "challenge", "authentication_status_code": "C",
        "acs_challenge_url": ACS_URL, "acs_challenge_mandated": "N",
        "authentication_challenge_type": "static", "liability_shifted": false,
    });
    assert_members(&outcome, &expected);
    assert!(outcome.get("eci").is_none());
}

#[test]
fn failed_authentication_returns_reason_and_extensions() {
    let (_, outcome) = create_and_authenticate("Failed");
    assert_eq!(outcome["authentication_status"], "failed");
    assert_eq!(outcome["authentication_status_reason"], "card-authentication-failed");
    let extension = json!({"id": "X1", "name": "more", "critical": false, "data": {"score": 1.50}});
    assert_eq!(outcome["message_extensions"], json!([extension]));
}

#[test]
fn card_with_two_brands_uses_the_chosen_scheme() {
    for (requested_scheme, brand) in [(None, "05"), (Some("Cartes Bancaires"), "05")] {
        let token = SERVER.token_with_number(&ACME, "4150580996517927");
        let body = json!({"token_id": token, "device_info": browser_info()});
        let session = SERVER.create_session_id(&ACME.public, &body);
        let mut request = payment("Frictionless");
        request["card_brand"] = "Mastercard".into();
        SERVER.authenticate(&ACME.private, &session, &request).expect_invalid("card_brand");
        request["card_brand"] = requested_scheme.into();
        let outcome = SERVER.authenticate(&ACME.private, &session, &request).expect_status(200);
        assert_eq!(outcome["eci"], brand);
    }
}

#[test]
fn merchant_session_authenticates_without_a_device() {
    let body = json!({"token_id": SERVER.card_token(&ACME), "type": "merchant"});
    let session = SERVER.create_session_id(&ACME.private, &body);
    let request = merchant_payment("Frictionless");
    SERVER.authenticate(&ACME.private, &session, &request).expect_status(200);
    let request = SERVER.directory_servers.exchange(&session).unwrap().request;
    assert_eq!((&request["deviceChannel"], &request["threeRIInd"]), (&json!("03"), &json!("11")));
    assert_eq!(request["threeDSRequestorDecMaxTime"], "00010");
    assert!(request.get("browserIP").is_none());
}

#[test]
fn threeds_session_can_be_authenticated_only_once() {
    for cardholder_name in ["Frictionless", "Challenged", "Failed"] {
        let (session, _) = create_and_authenticate(cardholder_name);
        let second_response = SERVER.authenticate_as(&ACME.private, &session, "Frictionless");
        second_response.expect_problem(409, "already authenticated");
    }
}

/// The service status shows whether the client must create a new session: 502 and 504 require one.
#[test]
fn directory_server_failures_are_424_with_service_status() {
    for (cardholder_name, status, source, later_status) in [
        ("Unreachable", "503", "Directory Server", 200),
        ("Silent", "504", "Directory Server", 409),
        ("Broken", "502", "Directory Server", 409),
        ("Garbled", "502", "Directory Server", 409),
        ("Rejected", "403", "Directory Server", 409),
    ] {
        let session = SERVER.create_browser_session(&ACME);
        let response = SERVER.authenticate_as(&ACME.private, &session, cardholder_name);
        let body = response.expect_status(424);
        assert_eq!(body["title"], "3DS Service Error", "{cardholder_name}");
        let error = &body["error"];
        let expected = [json!(status), json!(source), json!(session)];
        let shown = ["service_status", "error_source", "session_id"].map(|it| error[it].clone());
        assert_eq!(shown, expected, "{cardholder_name}");
        assert!(body.get("errors").is_none(), "{}", response.text);
        assert!(!response.text.contains("4242"), "{}", response.text);
        let second_response = SERVER.authenticate_as(&ACME.private, &session, "Frictionless");
        let TestResponse { status, text, .. } = &second_response;
        assert_eq!(*status, later_status, "{cardholder_name}: {text}");
    }
}

#[test]
fn repeated_authenticate_is_replayed_without_a_second_message() {
    let session = SERVER.create_browser_session(&ACME);
    let path = format!("{SESSIONS}/{session}/authenticate");
    let body = payment("Frictionless");
    let request = || SERVER.post_once(&ACME.private, &path, &session, &body).expect_status(200);
    let first = request();
    assert_eq!(request(), first);
}

#[test]
fn authenticate_session_type_errors_name_the_attribute_path() {
    let session = SERVER.create_browser_session(&ACME);
    let mut request = payment("Frictionless");
    request["purchase_info"]["amount"] = 8000.into();
    request["decoupled_challenge_max_time"] = "10".into();
    request["cardholder_info"]["billing_address"] = json!({"line1": ["4242424242424242"]});
    request["message_extensions"] = json!([{"id": 1}]);
    request["card_brand"] = 1.into();
    let response = SERVER.authenticate(&ACME.private, &session, &request);
    for path in [
        "purchase_info.amount",
        "decoupled_challenge_max_time",
        "cardholder_info.billing_address.line1",
        "message_extensions[0].id",
        "card_brand",
    ] {
        response.expect_invalid(path);
    }
    assert!(!response.text.contains("4242"), "{}", response.text);
    // Unknown attributes are ignored. The session is still unused.
    let mut request = payment("Frictionless");
    request["metadata"] = json!({"a": 1});
    request["unknown"] = 1.into();
    SERVER.authenticate(&ACME.private, &session, &request).expect_status(200);
}

/// The directory server may act on a sent message, so its outcome is stored even if no client waits
/// for it.
#[test]
fn outcome_is_stored_although_the_client_disconnects() {
    let (server, keys) = TestServer::start_with_tenant();
    let session = server.create_browser_session(&keys);
    let body = payment("Delayed").to_string();
    let head = format!(
        "POST {SESSIONS}/{session}/authenticate HTTP/1.1\r\nHost: a\r\nBT-API-KEY: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        keys.private,
        body.len(),
    );
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let path = format!("{SESSIONS}/{session}");
    let wait_until = |is_done: &dyn Fn(&Value) -> bool| {
        for _ in 0..10_000 {
            let session_body = server.get_path(&keys.private, &path).expect_status(200);
            if is_done(&session_body) {
                return session_body;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the session did not reach the expected state");
    };
    // The client disconnects only after the authentication request is recorded.
    wait_until(&|it| it["modified_date"].is_string());
    drop(stream);
    while server.app.metrics.in_flight.get() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.directory_servers.gate.add_permits(1);
    let session_body = wait_until(&|it| it.get("authentication").is_some());
    assert_eq!(session_body["authentication"]["authentication_status"], "successful");
}
