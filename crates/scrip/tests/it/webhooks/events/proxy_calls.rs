//! Events of proxied calls.

use scrip_core::types::EventType;
use scrip_testing::destination::{
    DestinationHost,
    behavior::{CannedResponse, DestinationBehavior},
};
use serde_json::{Value, json};

use crate::{
    harness::server::TenantApiKeys,
    proxy::harness::{PROXY, ProxyHarness, ProxyResponse, StatedDelivery},
    webhooks::events::Subscription,
};

fn subscribe(harness: &ProxyHarness) -> Subscription<'_> {
    Subscription::new(&harness.server, EventType::ProxyInvoked)
}

/// A destination with an answer that has one header of its own.
fn answering_host(status: u16) -> DestinationHost {
    let answer = CannedResponse::new(status, "application/json", r#"{"secret": "of the answer"}"#)
        .with_header("X-Receipt", "hidden-receipt");
    PROXY.destinations.host(&[DestinationBehavior::Respond(answer)])
}

/// Sends a call with the data of a token in its body and its query.
fn send_call(keys: &TenantApiKeys, host: &DestinationHost, idempotency_key: &str) -> ProxyResponse {
    let card = PROXY.create_card_of(keys, json!({}));
    let request = PROXY.post_url_as(&keys.private, &host.url("/v1/charges?a=b"));
    let request = request.header("X-Charge", "hidden-charge").json(&json!({
        "number": card.number_expression(), "cvc": card.cvc_expression(),
    }));
    match idempotency_key {
        "" => request.send(),
        key => request.idempotency_key(key).send(),
    }
}

/// Removes the durations and the header names that the vault adds; checks the given ones.
#[track_caller]
fn check_and_strip(data: &mut Value) {
    for pointer in ["/proxy/response", "/destination/response"] {
        if let Some(response) = data.pointer_mut(pointer) {
            let elapsed = response.as_object_mut().unwrap().remove("elapsed_ms");
            assert!(elapsed.is_some_and(|it| it.is_u64()), "{pointer}");
        }
    }
    for (pointer, name) in
        [("/destination/request", "x-charge"), ("/destination/response", "x-receipt")]
    {
        if let Some(message) = data.pointer_mut(pointer) {
            let headers = message.as_object_mut().unwrap().remove("headers").unwrap();
            let headers = headers.as_object().unwrap();
            assert!(headers.contains_key(name), "{headers:?}");
            assert!(headers.values().all(|it| *it == json!([])), "{headers:?}");
        }
    }
}

fn expected_data(proxy: Value, host: &DestinationHost, status: u16) -> Value {
    let mut proxy = proxy;
    proxy["response"] = json!({"status": status});
    json!({
        "proxy": proxy,
        "destination": {
            "request": {"method": "POST", "url": host.url("/v1/charges")},
            "response": {"status": status},
        },
    })
}

#[test]
fn call_of_an_ephemeral_proxy_has_one_event() {
    let (subscription, host) = (subscribe(&PROXY), answering_host(201));
    let keys = &subscription.keys;
    let response = send_call(keys, &host, "").expect_answer(201);
    let trace = response.header("bt-trace-id").unwrap();
    let mut data = subscription.expect_one_with_trace(&keys.private, trace);
    check_and_strip(&mut data);
    assert_eq!(data, expected_data(json!({"type": "ephemeral"}), &host, 201));
}

#[test]
fn call_of_a_pre_configured_proxy_has_one_event() {
    let (subscription, host) = (subscribe(&PROXY), answering_host(402));
    let keys = &subscription.keys;
    let proxy = PROXY.create_proxy_of(keys, &host.url("/v1"), json!({"name": "Charges"}));
    let request = PROXY.request("POST", "/charges?a=b").api_key(&keys.private);
    let request = request.proxy_key(&proxy.key).header("X-Charge", "hidden");
    let response = request.json(&json!({})).send().expect_answer(402);
    let trace = response.header("bt-trace-id").unwrap();
    let mut data = subscription.expect_one_with_trace(&keys.private, trace);
    check_and_strip(&mut data);
    let proxy = json!({"type": "pre_configured", "id": proxy.id, "name": "Charges"});
    assert_eq!(data, expected_data(proxy, &host, 402));
}

#[test]
fn call_without_an_api_key_has_one_event_without_an_actor() {
    let (subscription, host) = (subscribe(&PROXY), answering_host(200));
    let attributes = json!({"require_auth": false});
    let proxy = PROXY.create_proxy_of(&subscription.keys, &host.url(""), attributes);
    let request = PROXY.post_keyless(&proxy).header("X-Charge", "hidden");
    let response = request.send().expect_answer(200);
    let event = subscription.expect_one();
    assert_eq!(event["trace_id"], response.header("bt-trace-id").unwrap());
    assert_eq!(event["data"].get("actor"), None);
    assert_eq!(event["data"]["proxy"]["id"], proxy.id);
}

#[test]
fn repeated_call_with_an_idempotency_key_has_one_event() {
    let (subscription, host) = (subscribe(&PROXY), answering_host(201));
    let keys = &subscription.keys;
    let request = || {
        let request = PROXY.post_url_as(&keys.private, &host.url("/v1/charges"));
        request.header("X-Charge", "hidden").json(&json!({})).idempotency_key("key").send()
    };
    let first = request().expect_answer(201);
    let mut data =
        subscription.expect_one_with_trace(&keys.private, first.header("bt-trace-id").unwrap());
    check_and_strip(&mut data);
    assert_eq!(data, expected_data(json!({"type": "ephemeral"}), &host, 201));
    assert_eq!(request().status(), 201);
    assert_eq!(host.request_count(), 1);
    subscription.expect_one();
}

#[test]
fn call_without_an_answer_has_one_event_with_the_reason() {
    for idempotency_key in ["", "key"] {
        let host = PROXY.destinations.host(&[DestinationBehavior::HangUp]);
        let subscription = subscribe(&PROXY);
        let response = send_call(&subscription.keys, &host, idempotency_key);
        response.expect_error(502, StatedDelivery::MaybeSent);
        let event = subscription.expect_one();
        let response = &event["data"]["proxy"]["response"];
        assert_eq!((&response["status"], &response["error"]), (&json!(502), &json!("closed")));
        assert_eq!(event["data"]["destination"].get("response"), None);
    }
}

#[test]
fn call_with_a_destination_that_cannot_be_found_has_one_event() {
    for idempotency_key in ["", "key"] {
        let subscription = subscribe(&PROXY);
        let request = PROXY.request("POST", "").api_key(&subscription.keys.private);
        let request = request.url("https://missing.example.com/v1").json(&json!({}));
        let request = match idempotency_key {
            "" => request,
            key => request.idempotency_key(key),
        };
        request.send().expect_not_sent(502);
        let event = subscription.expect_one();
        let response = &event["data"]["proxy"]["response"];
        assert_eq!((&response["status"], &response["error"]), (&json!(502), &json!("lookup")));
    }
}

#[test]
fn failed_response_transform_has_one_event_with_both_errors() {
    let subscription = subscribe(&PROXY);
    let partial = CannedResponse::new(206, "application/json", "{}");
    let host = PROXY.destinations.host(&[partial.into()]);
    let transform = json!({
        "type": "mask", "matcher": "regex", "expression": "(\\d+)", "replacement": "*",
    });
    let attributes = json!({"response_transforms": [transform]});
    let proxy = PROXY.create_proxy_of(&subscription.keys, &host.url(""), attributes);
    let request = PROXY.request("POST", "").api_key(&subscription.keys.private);
    let response = request.proxy_key(&proxy.key).json(&json!({})).send();
    response.expect_error(502, StatedDelivery::Answered);
    let event = subscription.expect_one();
    let data = &event["data"];
    assert_eq!(data["proxy"]["response"]["status"], 502);
    assert_eq!(data["destination"]["response"]["status"], 206);
    assert_eq!(data["proxy"]["response"]["error"], "transform");
    assert_eq!(data["response_transform"], json!({"response": {"error": "transform"}}));
}

/// A call that is rejected before it is sent invoked nothing.
#[test]
fn rejected_call_has_no_event() {
    let (subscription, host) = (subscribe(&PROXY), answering_host(200));
    let keys = &subscription.keys;
    let unknown = json!(["{{ unknown }}"]);
    let request = PROXY.post_url_as(&keys.private, &host.url(""));
    assert_eq!(request.json(&unknown).send().status(), 400);
    let request = PROXY.post_url_as(&keys.public, &host.url(""));
    assert_eq!(request.json(&json!({})).send().status(), 403);
    let vault = &PROXY.server.app.vault;
    PROXY.server.runtime.block_on(vault.outcome_queue.flush(&*vault.store));
    assert_eq!(host.request_count(), 0);
    subscription.expect_none();
}
