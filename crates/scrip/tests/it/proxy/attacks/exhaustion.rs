//! Attackers that use up the time or the memory of the server: by the expressions of masks, and by
//! large answers.

use scrip_api::app::body_memory::BodyMemory;
use scrip_testing::destination::behavior::DestinationBehavior;
use serde_json::{Value, json};

use crate::proxy::{
    harness::{PROXY, ProxyHarness, StatedDelivery, proxy_body},
    idempotency::new_key,
};

fn mask(expression: &str) -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": expression, "replacement": "X"})
}

#[test]
fn mask_expression_with_too_many_steps_is_rejected() {
    let transforms = json!({"response_transforms": [mask("^([ab]*a[ab]{1900})")]});
    let body = proxy_body("https://provider.example", transforms);
    let error = PROXY.server.post(&PROXY.keys.management, "/proxies", &body).expect_status(400);
    let rule = error["errors"]["response_transforms[0].expression"][0].as_str().unwrap();
    assert!(rule.contains("256"), "{error}");
}

#[test]
fn mask_that_needs_too_much_work_for_an_answer_is_502_after_the_answer() {
    let host = PROXY.destinations.host(&[DestinationBehavior::text(200, &"a".repeat(1_000_000))]);
    let transforms = json!([mask("^([ab]*a[ab]{100})")]);
    let proxy = PROXY.create_proxy_to(&host, json!({"response_transforms": transforms}));
    let response = PROXY.post_to(&proxy).json(&json!({})).send();
    let error = response.expect_error(502, StatedDelivery::Answered);
    assert!(error["detail"].as_str().unwrap().contains("too much work"), "{error}");
    let typical = json!([mask("([0-9]{9,15})[0-9]{4}")]);
    let proxy = PROXY.create_proxy_to(&host, json!({"response_transforms": typical}));
    PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
}

/// Memory for 64 KiB of bodies.
fn start_with_little_memory() -> ProxyHarness {
    ProxyHarness::start_with(|setup, _| setup.body_memory = BodyMemory::new(64 * 1024, 1))
}

#[test]
fn answer_for_transforms_without_free_memory_is_503_after_the_answer() {
    let harness = start_with_little_memory();
    let host = harness.destinations.host(&[DestinationBehavior::text(200, &"a".repeat(200_000))]);
    let attributes = json!({"response_transforms": [mask("(b)")]});
    let proxy = harness.create_proxy_to(&host, attributes);
    let response = harness.post_to(&proxy).json(&json!({})).send();
    response.expect_error(503, StatedDelivery::Answered);
    assert_eq!(response.destination_status(), Some(200));
    assert_eq!(harness.server.app.body_memory.free_bytes(), 64 * 1024);
    host.set_behaviors(&[DestinationBehavior::text(200, "bab")]);
    let response = harness.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    assert_eq!(response.text(), "XaX");
}

/// Such an answer is passed on while it arrives.
#[test]
fn answer_without_transforms_needs_no_free_memory() {
    let harness = start_with_little_memory();
    let answer = "a".repeat(64_000);
    let host = harness.destinations.host(&[DestinationBehavior::text(200, &answer)]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let body = "x".repeat(3_000);
    let plain = harness.post_to(&proxy).body("text/plain", body.as_str()).send();
    assert_eq!(plain.expect_answer(200).text(), answer);
    let key = new_key();
    let send = || {
        let request = harness.post_to(&proxy).idempotency_key(&key);
        request.body("text/plain", body.as_str()).send()
    };
    assert_eq!(send().expect_answer(200).text(), answer);
    // The answer could not be stored.
    send().expect_error(409, StatedDelivery::Answered);
    assert_eq!(host.request_count(), 2);
}
