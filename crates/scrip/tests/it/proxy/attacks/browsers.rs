//! A browser with an access session: it must not read the configuration of a proxy, where the key of
//! the provider is.

mod session_data;

use serde_json::{Value, json};

use crate::proxy::harness::{PROXY, ProxyRequest, TestCard};

const SECRET: &str = "provider-secret-7391";

/// A session that may use one card.
pub(super) fn create_session(card: &TestCard) -> String {
    PROXY.create_card_session(&PROXY.keys.public, card)
}

#[test]
fn access_session_cannot_evaluate_expressions_over_the_configuration() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({"configuration": {"api_key": SECRET}}));
    let card = PROXY.create_card();
    let session = create_session(&card);
    let request = |key: &str| PROXY.post_as(key, &proxy);
    let in_body =
        |request: ProxyRequest| request.json(&json!({"reference": "{{ config: api_key }}"})).send();
    let in_header = |request: ProxyRequest, value: &str| {
        request.header("X-Reference", value).json(&json!({})).send()
    };
    let header_values = [
        "{{ config: api_key }}",
        "{{ config.api_key }}",
        "{{ proxy.config.api_key }}",
        "{{ proxy.request.body | hmac: 'sha-256', proxy.config.api_key | to_base16 }}",
    ];
    let mut responses = vec![in_body(request(&session))];
    responses.extend(header_values.map(|it| in_header(request(&session), it)));
    for response in responses {
        let error = response.expect_not_sent(403);
        assert!(error["detail"].as_str().unwrap().contains("configuration"), "{error}");
    }
    assert_eq!(host.request_count(), 0);
    let body = json!({"number": card.number_expression()});
    let with_header =
        request(&session).header("X-Host", "{{ proxy.request.headers.accept | size }}");
    with_header.json(&body).send().expect_answer(200);
    in_body(request(&PROXY.keys.private)).expect_answer(200);
    assert!(host.last_request().text().contains(SECRET));
}

/// A public key may call a proxy without `require_auth`, and no public application can have the right
/// that expressions need.
#[test]
fn public_key_cannot_evaluate_expressions_over_the_configuration() {
    for permission in ["token:use", "proxy:invoke"] {
        let body = json!({"name": "page", "type": "public", "permissions": [permission]});
        let created = PROXY.server.post(&PROXY.keys.management, "/applications", &body);
        created.expect_invalid("permissions");
    }
    let host = PROXY.destinations.host(&[]);
    let attributes = json!({"configuration": {"api_key": SECRET}, "require_auth": false});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let request = || PROXY.post_as(&PROXY.keys.public, &proxy);
    let responses = [
        request().json(&json!({"reference": "{{ config: api_key }}"})).send(),
        request().header("X-A", "{{ config: api_key }}").json(&json!({})).send(),
        request().header("X-A", "{{ proxy.config.api_key }}").json(&json!({})).send(),
    ];
    for response in responses {
        response.expect_not_sent(403);
    }
    assert_eq!(host.request_count(), 0);
    request().json(&json!({"reference": "1"})).send().expect_answer(200);
}

/// The proxy evaluates its own transforms, so a browser can call a provider that needs a key.
#[test]
fn request_transform_adds_the_key_of_the_provider_for_an_access_session() {
    let host = PROXY.destinations.host(&[]);
    let transforms: Value = json!([{"type": "append_header",
        "options": {"location": "X-API-Key", "value": "{{ config: api_key }}"}}]);
    let attributes =
        json!({"configuration": {"api_key": SECRET}, "request_transforms": transforms});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let card = PROXY.create_card();
    let request = PROXY.post_as(&create_session(&card), &proxy);
    request.json(&json!({"number": card.number_expression()})).send().expect_answer(200);
    assert_eq!(host.single_request().header("x-api-key"), Some(SECRET));
    assert!(host.single_request().text().contains(&card.number));
}
