//! Headers of proxied requests and answers, and expressions in header values.

use scrip_core::policy::TenantSettings;
use scrip_seal::Mac;
use scrip_testing::destination::behavior::{CannedResponse, DestinationBehavior};
use serde_json::json;

use crate::proxy::harness::PROXY;

#[test]
fn destination_receives_the_headers_of_the_client_and_none_of_the_vault() {
    let host = PROXY.destinations.host(&[]);
    let request = PROXY.post(&host.url("/v1?a=1")).header("Authorization", "Basic c2s6");
    let request = request
        .header("X-Two", "first")
        .header("X-Two", "second")
        .header("User-Agent", "shop/1")
        .header("Accept", "application/json")
        .header("Cookie", "a=b")
        .header("BT-TRACE-ID", "trace-7")
        .header("BT-IDEMPOTENCY-KEY", "headers-1")
        .header("BT-ANYTHING", "x")
        .header("X-Forwarded-For", "203.0.113.9")
        .header("Idempotency-Key", "of the provider");
    request.json(&json!({"a": 1})).send().expect_answer(200);
    let received = host.single_request();
    assert_eq!((received.method.as_str(), received.target.as_str()), ("POST", "/v1?a=1"));
    assert_eq!(received.header("host"), Some(host.authority().as_str()));
    assert_eq!(received.header("authorization"), Some("Basic c2s6"));
    assert_eq!(received.headers_named("x-two"), ["first", "second"]);
    assert_eq!(received.header("user-agent"), Some("shop/1"));
    assert_eq!(received.header("accept"), Some("application/json"));
    assert_eq!(received.header("cookie"), Some("a=b"));
    assert_eq!(received.header("idempotency-key"), Some("of the provider"));
    let names = received.header_names();
    assert!(!names.iter().any(|it| it.starts_with("bt-")), "{names:?}");
    // A provider must not see the addresses of the vault's clients.
    for name in ["via", "forwarded", "x-real-ip", "x-forwarded-for", "x-forwarded-proto"] {
        assert!(!names.iter().any(|it| it == name), "{names:?}");
    }
    assert!(!received.head.windows(6).any(|it| it == b"bt-api"));
}

#[test]
fn request_without_optional_headers_gets_none_added() {
    let host = PROXY.destinations.host(&[]);
    let request = PROXY.request("GET", "/x").api_key(&PROXY.keys.private);
    request.url(&host.url("")).send().expect_answer(200);
    let names = host.single_request().header_names();
    assert_eq!(names, ["accept", "host"], "the test client sends these two");
}

#[test]
fn hop_by_hop_headers_are_not_forwarded() {
    let response = CannedResponse::new(200, "text/plain", "x")
        .with_header("Connection", "keep-alive, X-Hop")
        .with_header("X-Hop", "1")
        .with_header("Keep-Alive", "timeout=5")
        .with_header("Proxy-Authenticate", "Basic")
        .with_header("Trailer", "X-T")
        .with_header("X-End", "1");
    let host = PROXY.destinations.host(&[response.into()]);
    let request = PROXY.post(&host.url(""));
    let request = request
        .header("Connection", "keep-alive, X-Hop")
        .header("X-Hop", "1")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Authorization", "Basic c2s6")
        .header("TE", "trailers")
        .header("X-End", "1");
    let response = request.json(&json!({})).send().expect_answer(200);
    let received = host.single_request();
    for name in ["connection", "x-hop", "keep-alive", "proxy-authorization", "te", "expect"] {
        assert_eq!(received.header(name), None, "{name} reached the destination");
    }
    assert_eq!(received.header("x-end"), Some("1"));
    for name in ["x-hop", "keep-alive", "proxy-authenticate", "trailer"] {
        assert_eq!(response.header(name), None, "{name} reached the client");
    }
    assert_eq!(response.header("x-end"), Some("1"));
}

#[test]
fn headers_of_the_connection_to_the_destination_can_be_set() {
    let host = PROXY.destinations.host(&[]);
    let request = PROXY.post(&host.url("")).header("BT-PROXY-KEEP-ALIVE", "timeout=7");
    let request = request.header("BT-PROXY-CONNECTION", "keep-alive");
    request.json(&json!({})).send().expect_answer(200);
    let received = host.single_request();
    assert_eq!(received.header("keep-alive"), Some("timeout=7"));
    assert_eq!(received.header("connection"), Some("keep-alive"));
}

#[test]
fn header_names_with_other_characters_are_dropped() {
    let host = PROXY.destinations.host(&[]);
    let request = PROXY.post(&host.url("")).header("X!Odd", "1").header("x.dot", "1");
    request.header("x_under-9", "1").json(&json!({})).send().expect_answer(200);
    let names = host.single_request().header_names();
    assert!(names.iter().any(|it| it == "x_under-9"), "{names:?}");
    assert!(!names.iter().any(|it| it.contains('!') || it.contains('.')), "{names:?}");
}

/// The provider computes the signature over the bytes that it received, with the card filled in.
#[test]
fn signature_over_the_detokenized_body_verifies_at_the_destination() {
    let (login, secret) = ("login-7", "s3cr3t & key");
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    let configuration = json!({"login": login, "secret": secret});
    let proxy = PROXY.create_proxy_to(&host, json!({"configuration": configuration}));
    let signature = "V2-HMAC-SHA256, Signature: {{ proxy.config.login \
                     | append: proxy.request.headers.X-Date | append: proxy.request.body \
                     | hmac: 'sha-256', proxy.config.secret | to_base16 }}";
    let request = PROXY.post_to(&proxy).header("X-Date", "2026-11-17T01:02:03Z");
    let request =
        request.header("Authorization", signature).header("X-Login", "{{ config: login }}");
    let body = json!({"amount": 120.50, "card": {"number": card.number_expression(), "x": "é"}});
    request.json(&body).send().expect_answer(200);
    let received = host.single_request();
    assert!(received.text().contains(&card.number));
    let message = [login.as_bytes(), b"2026-11-17T01:02:03Z", &received.body].concat();
    let expected = hmac_sha256(secret.as_bytes(), &message);
    let authorization = received.header("authorization").unwrap();
    assert_eq!(authorization, format!("V2-HMAC-SHA256, Signature: {expected}"));
    assert_eq!(received.header("x-login"), Some(login));
}

/// RFC 2104 with SHA-256, independent of the code under test.
fn hmac_sha256(key: &[u8], message: &[u8]) -> String {
    assert!(key.len() <= 64);
    let hash = |parts: &[&[u8]]| {
        let mut checksum = scrip_seal::Checksum::new();
        parts.iter().for_each(|it| checksum.add(it));
        checksum.finish()
    };
    let pad = |byte: u8| -> Vec<u8> {
        (0..64).map(|index| key.get(index).copied().unwrap_or(0) ^ byte).collect()
    };
    let inner = hash(&[&pad(0x36), message]);
    Mac(hash(&[&pad(0x5c), &inner])).to_hex().to_uppercase()
}

#[test]
fn signature_works_on_the_ephemeral_proxy_with_a_literal_secret() {
    let host = PROXY.destinations.host(&[]);
    let signature = "{{ proxy.request.body | hmac: 'sha-256', 'k' | to_base16 }}";
    let request = PROXY.post(&host.url("")).header("X-Signature", signature);
    request.body("application/octet-stream", "any bytes").send().expect_answer(200);
    let received = host.single_request();
    assert_eq!(received.header("x-signature"), Some(hmac_sha256(b"k", b"any bytes").as_str()));
}

#[test]
fn header_expression_cannot_name_a_token() {
    let card = PROXY.create_card();
    let host = PROXY.destinations.host(&[]);
    for expression in [
        card.number_expression(),
        format!("{{{{ token: {} | json: '$.data.number' }}}}", card.id),
        "{{ proxy.request.headers.X-None | no_such_filter }}".to_owned(),
        "{{ unclosed".to_owned(),
    ] {
        let request = PROXY.post(&host.url("")).header("X-Card", &expression);
        request.json(&json!({})).send().expect_not_sent(400);
    }
    assert_eq!(host.request_count(), 0);
}

/// A line break in a header value would start a header, or a second request.
#[test]
fn line_break_in_a_header_expression_is_rejected() {
    let token = PROXY.create_token(json!("a\r\nX-Injected: 1\r\n\r\nGET /second HTTP/1.1"));
    let host = PROXY.destinations.host(&[]);
    let configuration = json!({"lines": "a\r\nX-Injected: 1", "nul": "a\u{0}b", "line": "a\nb"});
    let proxy = PROXY.create_proxy_to(&host, json!({"configuration": configuration}));
    for value in [
        "{{ config: lines }}",
        "{{ config: nul }}",
        "{{ proxy.config.line }}",
        "{{ proxy.request.body }}",
        "x{{ 'a' | append: proxy.config.lines }}",
    ] {
        let request = PROXY.post_to(&proxy).header("X-Value", value);
        request.body("text/plain", format!("{{{{ {token} }}}}")).send().expect_not_sent(400);
    }
    assert_eq!(host.request_count(), 0);
}

#[test]
fn answers_keep_status_and_headers_in_order() {
    let response = CannedResponse::new(402, "application/json", r#"{"decline":"51"}"#)
        .with_header("X-Two", "first")
        .with_header("X-Two", "second")
        .with_header("Retry-After", "7")
        .with_header("Location", "https://elsewhere.example/x")
        .with_header("ETag", "\"7\"")
        .with_header("WWW-Authenticate", "Basic realm=\"provider\"");
    let host = PROXY.destinations.host(&[response.into()]);
    let response = PROXY.post(&host.url("")).json(&json!({})).send().expect_answer(402);
    assert_eq!(response.text(), r#"{"decline":"51"}"#);
    let values: Vec<_> = response.response.headers.get_all("x-two").iter().collect();
    assert_eq!(values, ["first", "second"]);
    for (name, value) in [
        ("retry-after", "7"),
        ("location", "https://elsewhere.example/x"),
        ("etag", "\"7\""),
        ("www-authenticate", "Basic realm=\"provider\""),
        ("content-type", "application/json"),
    ] {
        assert_eq!(response.header(name), Some(value));
    }
}

#[test]
fn every_method_and_status_is_forwarded() {
    let host = PROXY.destinations.host(&[]);
    for method in ["POST", "GET", "PUT", "PATCH", "DELETE"] {
        let request = PROXY.request(method, "/a").api_key(&PROXY.keys.private).url(&host.url(""));
        request.send().expect_answer(200);
        assert_eq!(host.last_request().method, method);
    }
    for status in [201, 204, 299, 301, 304, 400, 401, 403, 404, 408, 409, 418, 429, 500, 502, 503] {
        let body = if [204, 304].contains(&status) { "" } else { "body" };
        host.set_behaviors(&[DestinationBehavior::text(status, body)]);
        let response = PROXY.post(&host.url("")).json(&json!({})).send().expect_answer(status);
        assert_eq!(response.text(), body, "{status}");
    }
    let before = host.request_count();
    for method in ["HEAD", "TRACE", "PROPFIND"] {
        let request = PROXY.request(method, "/a").api_key(&PROXY.keys.private).url(&host.url(""));
        let response = request.send();
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.header("allow"), Some("POST, GET, PUT, PATCH, DELETE"), "{method}");
    }
    assert_eq!(host.request_count(), before);
}

#[test]
fn disabled_ephemeral_proxy_is_denied_and_pre_configured_proxies_work() {
    let settings = TenantSettings { disable_ephemeral_proxy: true, ..TenantSettings::default() };
    let keys = PROXY.server.create_test_tenant(settings);
    let host = PROXY.destinations.host(&[]);
    let request = || PROXY.request("POST", "").api_key(&keys.private).json(&json!({}));
    request().url(&host.url("")).send().expect_not_sent(403);
    assert_eq!(host.request_count(), 0);
    let proxy = PROXY.create_proxy_of(&keys, &host.url(""), json!({}));
    // The URL is ignored if there is a proxy key.
    let request = request().url("https://other.destination.test").proxy_key(&proxy.key);
    request.send().expect_answer(200);
    assert_eq!(host.request_count(), 1);
}
