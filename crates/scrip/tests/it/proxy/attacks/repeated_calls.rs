//! Attacks with idempotency keys.

use std::time::Duration;

use scrip_core::{
    policy::TenantSettings,
    types::{
        Permission::{ProxyInvoke, TokenRead, TokenUse},
        TenantKind,
        Transform::Mask,
    },
};
use scrip_testing::{
    destination::behavior::CannedResponse, requests::client_encryption::encrypt_json,
};
use serde_json::{Value, json};

use crate::{
    harness::server::unique_card_number,
    limits::guessing_budget_harness::lookalikes,
    proxy::{
        attacks::padded_sizes::encode_header,
        harness::{PROXY, ProxyHarness},
        hosts::map_host,
        idempotency::new_key,
    },
};

#[test]
fn replay_on_the_vault_host_has_no_cookies_of_a_custom_host() {
    let answer = CannedResponse::new(200, "text/html", "hi")
        .with_header("Set-Cookie", "sid=evil; Path=/")
        .with_header("Clear-Site-Data", "\"*\"")
        .with_header("Strict-Transport-Security", "max-age=0")
        .with_header("X-Kept", "1");
    let host = PROXY.destinations.host(&[answer.into()]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    map_host(&PROXY, &proxy, "replay.shop.example");
    let key = new_key();
    let send = |is_on_host: bool| {
        let request = PROXY.request("POST", "/x").api_key(&PROXY.keys.private);
        let request = match is_on_host {
            true => request.header("Host", "replay.shop.example"),
            false => request.proxy_key(&proxy.key),
        };
        request.idempotency_key(&key).json(&json!({"a": 1})).send().expect_answer(200)
    };
    let states = ["set-cookie", "clear-site-data", "strict-transport-security"];
    for (is_on_host, has_state) in [(true, true), (true, true), (false, false), (true, true)] {
        let response = send(is_on_host);
        for name in states {
            assert_eq!(response.header(name).is_some(), has_state, "{name}");
        }
        assert_eq!((response.text().as_str(), response.header("x-kept")), ("hi", Some("1")));
        let policies = response.response.headers.get_all("content-security-policy");
        assert_eq!(policies.iter().count(), 1);
    }
    assert_eq!(host.request_count(), 1);
}

/// The record of an idempotency key needs a right that a public key does not have. The answer must
/// not say that the call may have been sent.
#[test]
fn idempotency_key_of_a_caller_without_rights_is_rejected_as_not_sent() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    let request = || {
        let request = PROXY.request("POST", "").api_key(&PROXY.keys.public);
        request.proxy_key(&proxy.key).json(&json!({"a": 1}))
    };
    let key = new_key();
    for _ in 0..2 {
        let error = request().idempotency_key(&key).send().expect_not_sent(403);
        assert!(error["detail"].as_str().unwrap().contains("idempotency key"), "{error}");
    }
    assert_eq!(host.request_count(), 0);
    request().send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
}

/// A repeated call confirms the body of the first one.
#[test]
fn numbers_of_a_repeated_call_count_before_it_is_compared() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let masked = harness.key_with_rule("/", Mask, &[TokenRead, ProxyInvoke]);
    let numbers = lookalikes("411111", 22);
    let key = new_key();
    let send =
        |body: &Value| harness.post_as(&masked, &proxy).idempotency_key(&key).json(body).send();
    let body = |number: &str| json!({"text": format!("card {number}")});
    send(&body(&numbers[0])).expect_answer(200);
    send(&body(&numbers[0])).expect_answer(200);
    for number in &numbers[1..20] {
        assert_eq!(send(&body(number)).status(), 409);
    }
    assert_eq!(send(&body(&numbers[0])).status(), 409, "exhausted: an equal call is not replayed");
    assert_eq!(send(&body(&numbers[21])).status(), 409);
    assert_eq!(host.request_count(), 1);
}

/// The record would otherwise hold a digest over the CVC.
#[test]
fn calls_with_one_key_that_differ_only_in_the_cvc_are_equal() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let bodies = [
        ("application/json", [r#"{"a": {"cvc": "123"}}"#, r#"{"a":{"cvc":"999"}}"#]),
        ("application/x-www-form-urlencoded", ["a=1&card[cvc]=123", "a=1&card[cvc]=999"]),
    ];
    for (content_type, [first, second]) in bodies {
        let key = new_key();
        let send = |body: &str| {
            PROXY.post_to(&proxy).idempotency_key(&key).body(content_type, body).send()
        };
        let answer = send(first).expect_answer(200).text();
        assert_eq!(send(second).expect_answer(200).text(), answer, "{content_type}");
        assert_eq!(send("a=2&card[cvc]=123").status(), 409);
    }
}

/// The text would otherwise say whether the call of another browser was equal.
#[test]
fn access_session_gets_one_text_for_every_conflict_of_its_key() {
    let large_answer = CannedResponse::new(200, "text/plain", "x".repeat(70_000));
    let host = PROXY.destinations.host(&[large_answer.into()]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let rules = json!([{"description": "all", "priority": 1, "transform": "mask",
        "container": "/", "permissions": ["token:use"]}]);
    let session = PROXY.create_access_session(&json!({"rules": rules}));
    let key = new_key();
    let send =
        |body: &Value| PROXY.post_as(&session, &proxy).idempotency_key(&key).json(body).send();
    send(&json!({"a": 1})).expect_answer(200);
    let [equal, other] = [json!({"a": 1}), json!({"a": 2})].map(|it| send(&it));
    let text = |response: &crate::proxy::harness::ProxyResponse| {
        let error = &response.response.json()["proxy_error"];
        (response.status(), error["detail"].clone(), response.destination_status())
    };
    assert_eq!(text(&equal).0, 409, "the answer is too large to be stored");
    assert_eq!(text(&equal), text(&other));
}

/// A sender does not know whether the card that a field encrypted has a CVC.
#[test]
fn end_of_a_stored_answer_does_not_tell_whether_encrypted_data_has_a_cvc() {
    let harness = ProxyHarness::start();
    let settings = TenantSettings { disable_ephemeral_proxy: true, ..TenantSettings::default() };
    let keys = harness.server.create_test_tenant(settings);
    let caller = harness.server.key_with_rule(&keys.tenant, "/", Mask, &[TokenRead, TokenUse]);
    let client_key = harness.server.post(&keys.management, "/keys", &json!({})).expect_status(201);
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_of(&keys, &host.url(""), json!({}));
    let calls = [json!({}), json!({"cvc": "123"})].map(|mut data| {
        data["number"] = json!(unique_card_number());
        (data["expiration_month"], data["expiration_year"]) = (json!(1), json!(2040));
        let encrypted = encrypt_json(&client_key, &data);
        (encode_header(&json!({"type": "card", "encrypted": encrypted})), new_key())
    });
    for (minutes, status) in [(0, 200), (10, 200), (10, 409)] {
        harness.server.clock.advance(Duration::from_secs(minutes * 60));
        for (encrypted, key) in &calls {
            let request = harness.post_as(&caller, &proxy);
            let request = request.header("BT-ENCRYPTED", encrypted).idempotency_key(key);
            let response = request.json(&json!(["{{ encrypted }}"])).send();
            assert_eq!(response.status(), status, "{minutes}: {}", response.text());
        }
    }
    assert_eq!(host.request_count(), 2);
}
