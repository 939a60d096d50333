//! Idempotency keys of proxied calls: a destination is called at most once for a key.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use scrip_testing::destination::{
    DestinationHost,
    authority::{HostTls, HttpVersions},
    behavior::{CannedResponse, DestinationBehavior},
};
use serde_json::{Value, json};

use crate::proxy::harness::{CreatedProxy, PROXY, ProxyRequest, StatedDelivery};

/// Returns an idempotency key that no other test uses.
pub(crate) fn new_key() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("proxied-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn post(host: &DestinationHost, key: &str, body: &Value) -> ProxyRequest {
    PROXY.post(&host.url("/charges")).idempotency_key(key).json(body)
}

#[test]
fn repeated_call_replays_the_answer_and_is_not_sent_again() {
    for status in [200, 201, 302, 402, 404, 429, 500] {
        let body = format!(r#"{{ "answer":{status}}}"#);
        let response = CannedResponse::new(status, "application/json", body.clone())
            .with_header("X-Request", "first")
            .with_header("X-Request", "second");
        let host =
            PROXY.destinations.host(&[response.into(), DestinationBehavior::text(200, "no")]);
        let key = new_key();
        for _ in 0..3 {
            let response = post(&host, &key, &json!({"amount": 7})).send().expect_answer(status);
            assert_eq!(response.text(), body);
            assert_eq!(response.header("content-type"), Some("application/json"));
            let values: Vec<_> = response.response.headers.get_all("x-request").iter().collect();
            assert_eq!(values, ["first", "second"]);
            assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        }
        assert_eq!(host.request_count(), 1, "{status}");
    }
}

#[test]
fn every_method_with_an_effect_is_idempotent_and_get_is_not() {
    let host = PROXY.destinations.host(&[]);
    let mut expected = 0;
    for (method, is_idempotent) in
        [("POST", true), ("PUT", true), ("PATCH", true), ("GET", false), ("DELETE", false)]
    {
        let key = new_key();
        for _ in 0..2 {
            let request = PROXY.request(method, "/x").api_key(&PROXY.keys.private);
            request.url(&host.url("")).idempotency_key(&key).send().expect_answer(200);
        }
        expected += if is_idempotent { 1 } else { 2 };
        assert_eq!(host.request_count(), expected, "{method}");
    }
}

#[test]
fn call_without_a_key_is_sent_each_time() {
    let host = PROXY.destinations.host(&[]);
    for _ in 0..2 {
        PROXY.post(&host.url("")).json(&json!({})).send().expect_answer(200);
    }
    assert_eq!(host.request_count(), 2);
}

#[test]
fn key_with_other_content_is_rejected() {
    let host = PROXY.destinations.host(&[]);
    let other_host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let key = new_key();
    post(&host, &key, &json!({"amount": 7})).send().expect_answer(200);
    let base = || PROXY.request("POST", "").api_key(&PROXY.keys.private).idempotency_key(&key);
    let put = PROXY.request("PUT", "").api_key(&PROXY.keys.private).idempotency_key(&key);
    let rows = [
        post(&host, &key, &json!({"amount": 8})),
        post(&other_host, &key, &json!({"amount": 7})),
        base().url(&host.url("/refunds")).json(&json!({"amount": 7})),
        base().proxy_key(&proxy.key).json(&json!({"amount": 7})),
        put.url(&host.url("/charges")).json(&json!({"amount": 7})),
    ];
    for request in rows {
        request.send().expect_error(409, StatedDelivery::Answered);
    }
    assert_eq!((host.request_count(), other_host.request_count()), (1, 0));
    post(&host, &key, &json!({"amount": 7})).send().expect_answer(200);
}

#[test]
fn call_in_flight_is_409_and_its_answer_is_replayed_later() {
    let host = PROXY.destinations.host(&[DestinationBehavior::text(201, "done").gated()]);
    let key = new_key();
    thread::scope(|scope| {
        let first = scope.spawn(|| post(&host, &key, &json!({})).send());
        host.wait_for_requests(1);
        for _ in 0..2 {
            let repeated = post(&host, &key, &json!({})).send();
            repeated.expect_error(409, StatedDelivery::MaybeSent);
        }
        host.open_gate(1);
        first.join().unwrap().expect_answer(201);
    });
    assert_eq!(post(&host, &key, &json!({})).send().expect_answer(201).text(), "done");
    assert_eq!(host.request_count(), 1);
}

#[test]
fn calls_at_the_same_time_reach_the_destination_once() {
    let host = PROXY.destinations.host(&[]);
    for _ in 0..5 {
        let (key, before) = (new_key(), host.request_count());
        let statuses: Vec<_> = thread::scope(|scope| {
            let send = || post(&host, &key, &json!({"a": 1})).send().status();
            let calls: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
            calls.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(statuses.contains(&200), "{statuses:?}");
        assert!(statuses.iter().all(|it| [200, 409].contains(it)), "{statuses:?}");
        assert_eq!(host.request_count(), before + 1);
    }
}

/// Sends a call that fails after it may have arrived, and repeats it.
#[track_caller]
fn check_unknown_outcome(behavior: DestinationBehavior, status: u16) {
    let host = PROXY.destinations.host(&[behavior, DestinationBehavior::Echo]);
    let proxy = PROXY.create_proxy_to(&host, json!({"timeout": 1}));
    let key = new_key();
    let send = || PROXY.post_to(&proxy).idempotency_key(&key).json(&json!({"a": 1})).send();
    send().expect_error(status, StatedDelivery::MaybeSent);
    for _ in 0..2 {
        send().expect_error(409, StatedDelivery::MaybeSent);
    }
    assert_eq!(host.request_count(), 1);
}

#[test]
fn timeout_is_never_repeated() {
    check_unknown_outcome(DestinationBehavior::Silent, 408);
}

#[test]
fn broken_connection_is_never_repeated() {
    check_unknown_outcome(DestinationBehavior::HangUp, 502);
    check_unknown_outcome(DestinationBehavior::Raw(b"garbage".to_vec()), 502);
}

#[test]
fn call_that_was_not_sent_leaves_no_trace() {
    let broken = PROXY.destinations.host_with(HostTls::Expired, HttpVersions::Http1, &[]);
    let host = PROXY.destinations.host(&[]);
    let count_records = || PROXY.server.count_rows(&PROXY.keys.tenant, "idempotency_records");
    let key = new_key();
    let not_sent: [(ProxyRequest, u16); 3] = [
        (post(&broken, &key, &json!({})), 502),
        (post(&host, &key, &json!("{{ unknown-token }}")), 400),
        (PROXY.post("https://unknown.example.test/").idempotency_key(&key), 502),
    ];
    for (request, status) in not_sent {
        request.send().expect_not_sent(status);
    }
    // A request that is rejected before the lookup of its key does not say what became of the key.
    let rejected = PROXY.post("https://10.0.0.1/").idempotency_key(&key).send();
    rejected.expect_error(400, StatedDelivery::MaybeSent);
    assert_eq!(host.request_count(), 0);
    // The key is still free, also for other content.
    post(&host, &key, &json!({"amount": 1})).send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
    assert!(count_records() >= 1, "the answer is stored");
}

#[test]
fn rejected_repetition_of_a_sent_call_does_not_say_not_sent() {
    let host = PROXY.destinations.host(&[DestinationBehavior::HangUp]);
    let key = new_key();
    let body = json!({"a": 1});
    post(&host, &key, &body).send().expect_error(502, StatedDelivery::MaybeSent);
    // The same key with a body that is invalid now: the first call was sent all the same.
    for request in [
        post(&host, &key, &json!("{{ unknown-token }}")),
        post(&host, &key, &json!("{{ invalid |")),
        PROXY.post(&host.url("")).idempotency_key(&key).header("X", "{{ invalid |").json(&body),
    ] {
        let response = request.send();
        assert!(!response.text().contains("not_sent"), "{}", response.text());
        assert_eq!(response.status(), 409, "{}", response.text());
    }
    assert_eq!(host.request_count(), 1);
}

#[test]
fn keys_of_different_callers_are_separate() {
    let host = PROXY.destinations.host(&[]);
    let key = new_key();
    let other = PROXY.server.create_default_tenant();
    for api_key in [&PROXY.keys.private, &other.private] {
        let request = PROXY.post_url_as(api_key, &host.url(""));
        request.idempotency_key(&key).json(&json!({})).send().expect_answer(200);
    }
    assert_eq!(host.request_count(), 2);
    // The key of a proxied call is not the key of another operation.
    let token = json!({"type": "token", "data": 1});
    let created = PROXY.server.post_once(&PROXY.keys.private, "/tokens", &key, &token);
    assert_eq!(created.expect_status(201)["type"], "token");
}

#[test]
fn invalid_idempotency_keys_are_rejected() {
    let host = PROXY.destinations.host(&[]);
    for key in ["", &"k".repeat(300)] {
        let response = post(&host, key, &json!({})).send();
        assert_eq!(response.status(), 400, "{}", response.text());
        response.expect_not_sent(400);
    }
    assert_eq!(host.request_count(), 0);
}

fn create_keyless_proxy(host: &DestinationHost) -> CreatedProxy {
    PROXY.create_proxy_to(host, json!({"require_auth": false}))
}

#[test]
fn keyless_calls_ignore_the_idempotency_key() {
    let host = PROXY.destinations.host(&[]);
    let proxy = create_keyless_proxy(&host);
    let key = new_key();
    for count in 1..=2 {
        let request = PROXY.post_keyless(&proxy).idempotency_key(&key);
        request.json(&json!({"a": count})).send().expect_answer(200);
        assert_eq!(host.request_count(), count);
    }
    // With an API key the same proxy is idempotent.
    for _ in 0..2 {
        let request = PROXY.post_to(&proxy).idempotency_key(&key);
        request.json(&json!({})).send().expect_answer(200);
    }
    assert_eq!(host.request_count(), 3);
}

/// An error before the lookup of the key says `maybe_sent`, unless the call ignores the key.
#[test]
fn early_error_of_a_keyless_call_is_not_sent_although_it_has_a_key() {
    let host = PROXY.destinations.host(&[]);
    let (proxy, key) = (create_keyless_proxy(&host), new_key());
    let too_large = "x".repeat(2 * 1024 * 1024);
    let requests = || {
        let base =
            |path: &str| PROXY.request("POST", path).proxy_key(&proxy.key).idempotency_key(&key);
        [(base("/{{x}}"), 400), (base("").body("text/plain", too_large.clone()), 413)]
    };
    for (request, status) in requests() {
        request.send().expect_not_sent(status);
    }
    for (request, status) in requests() {
        let response = request.api_key(&PROXY.keys.private).send();
        response.expect_error(status, StatedDelivery::MaybeSent);
    }
    // Without the proxy, nothing is known of the call.
    let request = PROXY.request("POST", "").proxy_key("unknown").idempotency_key(&key);
    request.send().expect_error(404, StatedDelivery::MaybeSent);
    assert_eq!(host.request_count(), 0);
}
