//! Answers that are too large to be stored, answers to a CVC, and rights at the time of a replay.

use std::time::Duration;

use scrip_core::types::{
    Permission::{ProxyInvoke, TokenCreate, TokenRead, TokenUse},
    Transform::{Mask, Reveal},
};
use scrip_testing::destination::behavior::DestinationBehavior;
use serde_json::json;

use crate::{
    harness::server::unique_card_number,
    proxy::{
        harness::{PROXY, ProxyHarness, StatedDelivery},
        idempotency::new_key,
    },
};

const STORED_BYTES_MAX: usize = 64 * 1024;

#[test]
fn answer_of_64_kib_is_stored_and_a_larger_one_is_not() {
    for (length, is_stored) in
        [(STORED_BYTES_MAX, true), (STORED_BYTES_MAX + 1, false), (900_000, false)]
    {
        let body = "x".repeat(length);
        let host = PROXY.destinations.host(&[DestinationBehavior::text(402, &body)]);
        let key = new_key();
        let send = || PROXY.post(&host.url("")).idempotency_key(&key).json(&json!({"n": 1})).send();
        assert_eq!(send().expect_answer(402).text().len(), length);
        let repeated = send();
        if is_stored {
            assert_eq!(repeated.expect_answer(402).text().len(), length);
        } else {
            assert_eq!(repeated.destination_status(), Some(402), "the status of the first call");
            let error = repeated.expect_error(409, StatedDelivery::Answered);
            assert!(error["detail"].as_str().unwrap().contains("not stored"), "{error}");
        }
        assert_eq!(host.request_count(), 1, "{length} bytes");
    }
}

#[test]
fn replay_needs_the_rights_of_the_first_call() {
    let host = PROXY.destinations.host(&[DestinationBehavior::text(200, "secret answer")]);
    let card = PROXY.create_card_of(&PROXY.keys, json!({"containers": ["/cards/"]}));

    let rules = |container: &str| {
        json!([{"description": "cards", "priority": 1, "container": container,
            "transform": "reveal", "permissions": ["token:use"]}])
    };
    let application = PROXY.create_application(&json!({"rules": rules("/cards/")}));
    let key = new_key();
    let send = || {
        let request = PROXY.post_url_as(&application.key, &host.url(""));
        request.idempotency_key(&key).json(&json!([card.number_expression()])).send()
    };
    send().expect_answer(200);
    send().expect_answer(200);
    let update = json!({"name": "temporary", "rules": rules("/elsewhere/")});
    PROXY.server.put(&PROXY.keys.management, &application.path, &update).expect_status(200);
    let denied = send();
    let delivery = denied.response.json()["proxy_error"]["errors"]["proxy"].clone();
    assert_eq!((denied.status(), delivery), (403, json!(["answered"])), "{}", denied.text());
    assert!(!denied.text().contains("secret answer"));
    assert_eq!(denied.destination_status(), None, "the status belongs to the answer");
    assert_eq!(host.request_count(), 1);
}

/// The destination may repeat the CVC in its answer. Its copy must end with the CVC.
#[test]
fn stored_answer_to_a_cvc_ends_with_the_cvc() {
    let harness = ProxyHarness::start();
    let card = harness.create_card();
    let host = harness.destinations.host(&[]);
    let (with_cvc, without_cvc) = (new_key(), new_key());
    let send = |key: &str, expression: String| {
        harness.post(&host.url("")).idempotency_key(key).json(&json!([expression])).send()
    };
    let send_cvc = || send(&with_cvc, card.cvc_expression());
    let send_number = || send(&without_cvc, card.number_expression());
    assert_eq!(send_cvc().expect_answer(200).text(), r#"["123"]"#);
    send_number().expect_answer(200);
    assert_eq!(send_cvc().expect_answer(200).text(), r#"["123"]"#);
    harness.server.clock.advance(Duration::from_secs(60 * 60));
    let expired = send_cvc();
    expired.expect_error(409, StatedDelivery::Answered);
    assert_eq!(expired.destination_status(), Some(200), "the status of the first call");
    send_number().expect_answer(200);
    assert_eq!(host.request_count(), 2);
}

/// The expression decides how long an answer is stored for a caller that may not read the card:
/// otherwise the end would tell whether the card has a CVC, and when it was written.
#[test]
fn end_of_a_stored_answer_does_not_tell_whether_a_hidden_card_has_a_cvc() {
    let harness = ProxyHarness::start();
    let caller = harness.key_with_rule("/", Mask, &[TokenRead, ProxyInvoke]);
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let without_cvc = json!({"data": {"number": unique_card_number(), "expiration_month": 1,
        "expiration_year": 2040}});
    let old = harness.create_card();
    harness.server.clock.advance(Duration::from_secs(55 * 60));
    let cards = [old, harness.create_card(), harness.create_card_of(&harness.keys, without_cvc)];
    let calls: Vec<_> = cards.iter().map(|it| (it.cvc_expression(), new_key())).collect();
    let numbers = cards.iter().map(|it| (it.number_expression(), new_key())).collect();
    let send_all = |calls: &Vec<(String, String)>| -> Vec<u16> {
        let send = |(expression, key): &(String, String)| {
            let request = harness.post_as(&caller, &proxy);
            request.idempotency_key(key).json(&json!([expression])).send().status()
        };
        calls.iter().map(send).collect()
    };
    let mut statuses = Vec::new();
    for minutes in [0, 1, 9, 10, 50, 20] {
        harness.server.clock.advance(Duration::from_secs(minutes * 60));
        let of_cvcs = send_all(&calls);
        assert!(of_cvcs.iter().all(|it| *it == of_cvcs[0]), "{minutes}: {of_cvcs:?}");
        statuses.push(of_cvcs[0]);
        assert_eq!(send_all(&numbers), [200; 3], "{minutes}");
    }
    assert_eq!(statuses, [200, 200, 200, 409, 409, 409]);
    assert_eq!(host.request_count(), 6);
}

#[test]
fn stored_answer_expires_like_other_responses() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let key = new_key();
    let send = || harness.post(&host.url("")).idempotency_key(&key).json(&json!({})).send();
    send().expect_answer(200);
    harness.server.clock.advance(Duration::from_secs(23 * 60 * 60));
    send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
    harness.server.clock.advance(Duration::from_secs(2 * 60 * 60));
    send().expect_answer(200);
    assert_eq!(host.request_count(), 2);
}

#[test]
fn call_that_cannot_be_recorded_is_503_and_not_sent() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let card = harness.create_card();
    let api_key = harness.key_with_rule("/", Reveal, &[TokenUse, TokenRead, TokenCreate]);
    let send = || {
        harness.post_url_as(&api_key, &host.url("")).json(&json!([card.number_expression()])).send()
    };
    harness.server.engine.reject_read_log_writes();
    send().expect_not_sent(503);
    assert_eq!(host.request_count(), 0, "an unrecorded call was sent");
    harness.server.engine.allow_read_log_writes();
    send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
}
