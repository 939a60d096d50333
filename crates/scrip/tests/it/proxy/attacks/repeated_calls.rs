//! Attacks with idempotency keys.

use scrip_testing::destination::behavior::CannedResponse;
use serde_json::json;

use crate::proxy::{
    harness::{PROXY, StatedDelivery},
    hosts::map_host,
    idempotency::new_key,
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
        let response = request().idempotency_key(&key).send();
        let error = response.expect_error(403, StatedDelivery::NotSent);
        assert!(error["detail"].as_str().unwrap().contains("idempotency key"), "{error}");
    }
    assert_eq!(host.request_count(), 0);
    request().send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
}
