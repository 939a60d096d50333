//! Tables of forwarded headers and header expressions.

use hyper::{
    HeaderMap, StatusCode,
    header::{HeaderName, HeaderValue},
};
use scrip_core::work_meter::WorkMeter;
use serde_json::{Value, json};

use super::*;
use crate::proxy::error::ProxyError;

fn build(rows: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in rows {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn rows(headers: &HeaderMap) -> Vec<(&str, String)> {
    let mut rows: Vec<_> = headers
        .iter()
        .map(|(name, value)| {
            (name.as_str(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    rows.sort_unstable();
    rows
}

#[track_caller]
fn check_headers(headers: &HeaderMap, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    assert_eq!(rows(headers), expected);
}

const RECEIVED: &[(&str, &str)] = &[
    ("Host", "vault.example"),
    ("Connection", "close, X-Listed, X_Other"),
    ("X-Listed", "1"),
    ("X-Other", "1"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Authorization", "x"),
    ("Proxy-Connection", "x"),
    ("TE", "trailers"),
    ("Trailer", "x"),
    ("Transfer-Encoding", "chunked"),
    ("Upgrade", "h2c"),
    ("Expect", "100-continue"),
    ("Content-Length", "5"),
    ("BT-API-KEY", "key"),
    ("BT-PROXY-URL", "https://example.com"),
    ("BT-TRACE-ID", "t"),
    ("BT-IDEMPOTENCY-KEY", "i"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Real-IP", "192.0.2.1"),
    ("Forwarded", "for=192.0.2.1"),
    ("Via", "1.1 lb"),
    ("True-Client-IP", "192.0.2.1"),
    ("CF-Connecting-IP", "192.0.2.1"),
    ("X-Client-IP", "192.0.2.1"),
    ("X-Cluster-Client-IP", "192.0.2.1"),
    ("Fastly-Client-IP", "192.0.2.1"),
    ("X-Original-Forwarded-For", "192.0.2.1"),
    ("X_Forwarded_For", "192.0.2.1"),
    ("Transfer_Encoding", "chunked"),
    ("Content_Length", "3"),
    ("Content-Length_", "3"),
    ("Host_", "provider.example"),
    ("_Connection", "close"),
    ("BT_API_KEY", "key"),
    ("X_Listed", "1"),
    ("X-Forwarded", "192.0.2.1"),
    ("X-Original-URL", "/admin"),
    ("X-Rewrite-URL", "/admin"),
    ("X-Override-URL", "/admin"),
    ("X-HTTP-DestinationURL", "/admin"),
    ("X-Envoy-Original-Path", "/admin"),
    ("Proxy", "http://192.0.2.1"),
    ("X.Dot", "dropped"),
    ("X!Mark", "dropped"),
    ("Authorization", "Bearer x"),
    ("Accept-Encoding", "gzip"),
    ("Accept", "a/b"),
    ("Accept", "c/d"),
    ("X_Under-Score1", "kept"),
    ("Idempotency-Key", "provider"),
];

#[test]
fn request_headers_of_the_connection_and_the_vault_are_not_forwarded() {
    let forwarded = forward_request_headers(&build(RECEIVED), false);
    check_headers(
        &forwarded,
        &[
            ("accept", "a/b"),
            ("accept", "c/d"),
            ("accept-encoding", "gzip"),
            ("authorization", "Bearer x"),
            ("idempotency-key", "provider"),
            ("x_under-score1", "kept"),
        ],
    );
}

#[test]
fn client_can_set_the_connection_headers_of_the_destination() {
    let received = build(&[
        ("BT-PROXY-KEEP-ALIVE", "timeout=9"),
        ("BT-PROXY-CONNECTION", "close"),
        ("Connection", "keep-alive"),
    ]);
    let forwarded = forward_request_headers(&received, false);
    check_headers(&forwarded, &[("connection", "close"), ("keep-alive", "timeout=9")]);
}

#[test]
fn response_transforms_request_an_unencoded_response() {
    let forwarded = forward_request_headers(&build(&[("Accept-Encoding", "gzip, br")]), true);
    check_headers(&forwarded, &[("accept-encoding", "identity")]);
    // A mask does not match a part of a value.
    let ranges = build(&[
        ("Range", "bytes=0-9"),
        ("Request-Range", "bytes=0-9"),
        ("If-Range", "x"),
        ("A-IM", "vcdiff"),
    ]);
    assert_eq!(forward_request_headers(&ranges, false).len(), 4);
    check_headers(&forward_request_headers(&ranges, true), &[("accept-encoding", "identity")]);
}

const ANSWERED: &[(&str, &str)] = &[
    ("Connection", "X-Listed"),
    ("X-Listed", "1"),
    ("Transfer-Encoding", "chunked"),
    ("Content-Length", "5"),
    ("Proxy-Authenticate", "x"),
    ("BT-TRACE-ID", "forged"),
    ("BT-PROXY-DESTINATION-STATUS", "200"),
    ("Access-Control-Allow-Origin", "https://evil.example"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Set-Cookie", "a=b"),
    ("Clear-Site-Data", "\"*\""),
    ("Strict-Transport-Security", "max-age=0"),
    ("Alt-Svc", "h3=\":443\""),
    ("Service-Worker-Allowed", "/"),
    ("Content-Security-Policy", "default-src *"),
    ("X-Content-Type-Options", "none"),
    ("Content-Type", "text/html"),
    ("X.Dot", "kept"),
    ("Vary", "a"),
    ("Vary", "b"),
];

#[test]
fn response_headers_give_the_destination_no_power_over_the_vault_host() {
    let forwarded =
        forward_response_headers(&build(ANSWERED), StatusCode::CREATED, ResponseOrigin::Vault);
    check_headers(
        &forwarded,
        &[
            ("bt-proxy-destination-status", "201"),
            ("content-security-policy", "default-src *"),
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("content-type", "text/html"),
            ("vary", "a"),
            ("vary", "b"),
            ("x-content-type-options", "none"),
            ("x-content-type-options", "nosniff"),
            ("x.dot", "kept"),
        ],
    );
    // Browsers take the first value of this header.
    assert_eq!(forwarded["x-content-type-options"], "nosniff");
}

#[test]
fn custom_host_keeps_cookies_and_policies_of_the_destination() {
    let forwarded =
        forward_response_headers(&build(ANSWERED), StatusCode::OK, ResponseOrigin::CustomHost);
    for name in ["set-cookie", "clear-site-data", "strict-transport-security", "alt-svc"] {
        assert!(forwarded.contains_key(name), "{name}");
    }
    for name in ["bt-trace-id", "access-control-allow-origin", "content-length", "x-listed"] {
        assert!(!forwarded.contains_key(name), "{name}");
    }
    assert_eq!(forwarded["bt-proxy-destination-status"], "200");
}

fn evaluate(headers: &mut HeaderMap, body: &[u8], configuration: &Value) -> Result<(), ProxyError> {
    let client_headers = headers.clone();
    evaluate_of_client(headers, &client_headers, body, configuration)
}

fn evaluate_of_client(
    headers: &mut HeaderMap,
    client_headers: &HeaderMap,
    body: &[u8],
    configuration: &Value,
) -> Result<(), ProxyError> {
    let work = WorkMeter::default();
    let fill_random = |it: &mut [u8]| it.fill(7);
    let inputs = HeaderInputs {
        client_headers,
        readable_headers: client_headers,
        is_written: &|it| it == "x-replaced",
        body,
        configuration,
        work: &work,
        fill_random,
        stand_in_bytes: None,
        hides_configuration: false,
    };
    evaluate_headers(headers, &inputs)
}

#[test]
fn header_that_a_transform_wrote_is_not_evaluated() {
    let (client, written) = ("{{ config: a }}", "{{ config: b }}");
    let client_headers = build(&[
        ("X-Both", client),
        ("X-Both", client),
        ("Digest", client),
        ("X-Own", client),
        ("X-Replaced", client),
    ]);
    // A transform removed a header of the client, and appended others.
    let mut headers = build(&[
        ("X-Both", client),
        ("X-Both", client),
        ("X-Both", client),
        ("X-Both", written),
        ("Digest", written),
        ("X-Own", client),
        ("X-Replaced", client),
        ("X-Written", "{{ never closed"),
    ]);
    let configuration = json!({"a": "1", "b": "2"});
    evaluate_of_client(&mut headers, &client_headers, b"", &configuration).unwrap();
    let values: Vec<_> = headers.get_all("x-both").iter().collect();
    assert_eq!(values, ["1", "1", client, written]);
    assert_eq!(headers["digest"], written);
    assert_eq!(headers["x-own"], "1");
    assert_eq!(headers["x-replaced"], client, "a transform wrote the same text");
    assert_eq!(headers["x-written"], "{{ never closed");
}

#[test]
fn header_expressions_sign_the_request() {
    let mut headers = build(&[
        ("X-User-Id", "2342424"),
        ("X-Date", "2024-07-10T13:46:28.629Z"),
        (
            "Authorization",
            "V2 {{ proxy | json: '$.request.headers.X-User-Id' | append: proxy.request.headers.X-Date | append: \
             proxy.request.body | hmac: 'sha-256', proxy.config.secret_key | to_base16 | downcase }}",
        ),
        ("X-Plain", "{ {} }"),
        ("X-Key", "{{ config: secret_key }}"),
        ("X-Key", "second"),
        ("X-Joined", "{{ proxy.request.headers.X-List }}|{{ config.secret_key }}"),
        ("X-List", "a"),
        ("X-List", "b"),
    ]);
    assert!(has_header_expressions(&headers));
    let body = br#"{"card_number":"4242424242424242"}"#;
    evaluate(&mut headers, body, &json!({"secret_key": "my-secret-key"})).unwrap();
    let message = b"23424242024-07-10T13:46:28.629Z{\"card_number\":\"4242424242424242\"}";
    let digest = scrip_seal::KeyedHash::Sha256.digest(b"my-secret-key", message);
    let digest: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    assert_eq!(headers["authorization"], format!("V2 {digest}"));
    assert!(headers["authorization"].is_sensitive());
    assert_eq!(headers["x-plain"], "{ {} }");
    let keys: Vec<_> = headers.get_all("x-key").iter().collect();
    assert_eq!(keys, ["my-secret-key", "second"]);
    assert_eq!(headers["x-joined"], "a, b|my-secret-key");
}

#[test]
fn invalid_header_expressions_are_rejected_with_the_header_name() {
    let rows = [
        ("{{ 26818785-547b-4b28-b0fa-531377e99f4e }}", "a header can read only proxy and config"),
        ("{{ token: abc }}", "a header can read only proxy and config"),
        ("{{ proxy.request.body", "this {{ is never closed"),
        ("{{ config: newline }}", "the value contains a control character"),
        ("{{ config: tab }}", "the value contains a control character"),
        ("{{ config: nul }}", "the value contains a control character"),
        ("{{ config: next_line }}", "the value contains a control character"),
        ("{{ config: none }}", "the configuration of the proxy has no value of this name"),
        ("{{ 'x' | hmac: 'sha-256', proxy.config.none }}", "hmac takes a key"),
    ];
    let configuration =
        json!({"newline": "a\r\nX-Evil: 1", "tab": "a\tb", "nul": "\0", "next_line": "\u{85}"});
    for (value, expected) in rows {
        let mut headers = build(&[("X-Value", value)]);
        let error = evaluate(&mut headers, b"", &configuration).unwrap_err();
        let problem = error.problem().unwrap();
        let errors = problem.errors().unwrap();
        let rule = errors["headers.x-value"][0];
        assert!(rule.starts_with(expected), "{value}: {rule}");
        assert_eq!(error.status(), 400);
    }
}

#[test]
fn body_that_is_no_text_cannot_be_read_by_a_header() {
    for (value, is_accepted) in [
        ("{{ proxy.request.body }}", false),
        ("{{ proxy | json: '$.request.body' }}", false),
        ("{{ 'x' | append: proxy.request }}", false),
        ("{{ proxy }}", false),
        ("{{ proxy.config.a }}", true),
        ("{{ config: a | append: proxy.request.headers.x }}", true),
    ] {
        let result = evaluate(&mut build(&[("X-Value", value)]), b"\xff", &json!({"a": "b"}));
        assert_eq!(result.is_ok(), is_accepted, "{value}");
    }
}

#[test]
fn lists_and_objects_in_headers_are_json_text() {
    let mut headers = build(&[("X-Value", "{{ config }}"), ("X-Null", "{{ proxy.none }}")]);
    evaluate(&mut headers, b"", &json!({"a": "b"})).unwrap();
    assert_eq!(headers["x-value"], r#"{"a":"b"}"#);
    assert_eq!(headers["x-null"], "");
}

#[test]
fn connection_header_for_the_destination_accepts_only_its_two_values() {
    for (value, is_accepted) in [
        ("close", true),
        ("Keep-Alive", true),
        ("Authorization", false),
        ("close, X-API-Key", false),
        ("", false),
    ] {
        let headers = build(&[("BT-PROXY-CONNECTION", value)]);
        assert_eq!(check_connection_header(&headers).is_ok(), is_accepted, "{value}");
    }
}
