//! Get Token: transforms, exact expiry, and the retention of a CVC.

use std::time::Duration;

use scrip_testing::requests::with_members;
use serde_json::json;

use crate::harness::server::{ACME, SERVER, TestServer, card_body, unique_card_number};

#[test]
fn percent_encoded_ids_are_decoded() {
    SERVER.create_token_ok(&ACME.private, &json!({"id": "größe 7", "type": "token", "data": 1}));
    assert_eq!(SERVER.get_token(&ACME.private, "gr%C3%B6%C3%9Fe%207").json()["id"], "größe 7");
    assert_eq!(SERVER.get_token(&ACME.private, "%FF%FE%FD").status, 404);
}

#[test]
fn token_is_404_from_the_instant_of_its_expiry() {
    let (server, keys) = TestServer::start_with_tenant();
    let body = json!({"id": "short-lived", "type": "token", "data": 1, "expires_at": "2090-01-01T00:00:00Z"});
    server.create_token_ok(&keys.private, &body);
    assert_eq!(server.get_token(&keys.private, "short-lived").status, 200);

    // 2090-01-01 is 3,786,912,000 seconds after 1970.
    let now = scrip_core::types::time::Clock::now(&*server.clock).unix_ms;
    let left_ms = u64::try_from(3_786_912_000_000 - now).unwrap();
    server.clock.advance(Duration::from_millis(left_ms - 5_000));
    assert_eq!(server.get_token(&keys.private, "short-lived").status, 200);
    server.clock.advance(Duration::from_secs(5));
    server.get_token(&keys.private, "short-lived").expect_problem(404, "Not found.");
    let patch = json!({"expires_at": null});
    assert_eq!(server.patch_token(&keys.private, "short-lived", &patch).status, 404);
    assert_eq!(server.delete(&keys.private, "/tokens/short-lived").status, 404);
    // The id can be used again.
    let body = json!({"id": "short-lived", "type": "token", "data": 2});
    server.create_token_ok(&keys.private, &body);
}

#[test]
fn cvc_expires_after_an_hour_and_a_patched_cvc_has_its_own_hour() {
    let (server, keys) = TestServer::start_with_tenant();
    let body = with_members(card_body(&unique_card_number()), &json!({"id": "with-cvc"}));
    server.create_token_ok(&keys.private, &body);
    let cvc = || server.get_token(&keys.private, "with-cvc").json()["data"].get("cvc").cloned();
    assert_eq!(cvc(), Some(json!("123")));
    server.clock.advance(Duration::from_secs(30 * 60));
    let patched = server.patch_token(&keys.private, "with-cvc", &json!({"data": {"cvc": "9876"}}));
    assert_eq!(patched.json()["data"]["cvc"], "9876");
    server.clock.advance(Duration::from_secs(40 * 60));
    assert_eq!(cvc(), Some(json!("9876")), "the patched CVC must have its own hour");
    let patch = json!({"data": {"expiration_month": 1}});
    let stored = server.patch_token(&keys.private, "with-cvc", &patch).json();
    assert_eq!(stored["data"]["cvc"], "9876", "another patch must keep the CVC and its expiry");
    server.clock.advance(Duration::from_secs(20 * 60));
    assert_eq!(cvc(), None);
    assert_eq!(server.get_token(&keys.private, "with-cvc").json()["data"]["expiration_month"], 1);
}
