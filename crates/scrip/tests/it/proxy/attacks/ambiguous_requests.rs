//! Requests that the vault and another server could read in different ways.

use serde_json::json;

use crate::proxy::harness::PROXY;

#[test]
fn request_with_two_hosts_is_rejected() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    for path in ["/proxy/x", "/tokens", "/healthz"] {
        let request = PROXY.request_at("GET", path).proxy_key(&proxy.key);
        let response = request.header("Host", "a.example").header("Host", "b.example").send();
        assert_eq!(response.status(), 400, "{path}: {}", response.text());
    }
    let request = PROXY.request("GET", "/x").proxy_key(&proxy.key);
    request.header("Host", "a.example").header("Host", "a.example").send().expect_not_sent(400);
    assert_eq!(host.request_count(), 0);
}

#[test]
fn query_cannot_repeat_a_parameter_of_the_proxy() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy(&host.url("/pay?mid=7&mode=test"), json!({}));
    let send = |query: &str| {
        let request = PROXY.request("POST", query).api_key(&PROXY.keys.private);
        request.proxy_key(&proxy.key).json(&json!({})).send()
    };
    for query in ["?mid=8", "?a=1&m%6fde=live", "/x?MID=8", "?mid[]=8"] {
        send(query).expect_not_sent(400);
    }
    assert_eq!(host.request_count(), 0);
    send("/x?a=1").expect_answer(200);
    assert_eq!(host.single_request().target, "/pay/x?mid=7&mode=test&a=1");
    // The caller of an ephemeral proxy chooses both parts.
    let request = PROXY.request("POST", "?mid=8").api_key(&PROXY.keys.private);
    request.url(&host.url("/pay?mid=7")).json(&json!({})).send().expect_answer(200);
    assert_eq!(host.last_request().target, "/pay?mid=7&mid=8");
}

#[test]
fn chain_of_encodings_is_rejected_by_its_length() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    let send = |path: &str| PROXY.request("GET", path).proxy_key(&proxy.key).send();
    let error = send(&format!("/%{}", "25".repeat(30_000))).expect_not_sent(400);
    assert!(error.to_string().contains("16384"), "{error}");
    for path in ["/..%3f/admin", "/%c0%ae%c0%ae/admin", "/%ef%bc%8e%ef%bc%8e/admin"] {
        send(path).expect_not_sent(400);
    }
    assert_eq!(host.request_count(), 0);
}
