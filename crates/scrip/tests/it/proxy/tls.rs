//! Client certificates, private authorities, TLS versions, HTTP/2, and connections that are never
//! shared between tenants or proxies.

use scrip_testing::destination::{
    DestinationHost,
    authority::{HostTls, HttpVersions, PemCertificate},
};
use serde_json::{Value, json};

use crate::{
    harness::server::TestResponse,
    proxy::harness::{CreatedProxy, PROXY, ProxyHarness},
};

fn put_certificate(proxy: &CreatedProxy, certificate: &PemCertificate) -> TestResponse {
    let body = json!({
        "certificate_pem": certificate.certificate, "private_key_pem": certificate.key,
    });
    let path = format!("/proxies/{}/client-certificate", proxy.id);
    PROXY.server.put(&PROXY.keys.management, &path, &body)
}

fn host_with(tls: HostTls) -> DestinationHost {
    PROXY.destinations.host_with(tls, HttpVersions::Http1, &[])
}

#[test]
fn client_certificate_of_a_proxy_is_presented() {
    let host = host_with(HostTls::ClientCertificate);
    let certificate = PROXY.destinations.authority.issue_client_certificate("shop");
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let other_proxy = PROXY.create_proxy_to(&host, json!({}));
    let response = PROXY.post_to(&proxy).json(&json!({})).send();
    assert_eq!(response.status(), 502, "{}", response.text());
    assert_eq!(host.request_count(), 0);
    let answer = put_certificate(&proxy, &certificate).expect_status(200);
    let shown = answer.to_string();
    assert!(shown.contains("shop"), "{shown}");
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    assert_eq!(host.single_request().client_certificate, Some(certificate.der.clone()));
    // A connection with a certificate never serves another proxy.
    let response = PROXY.post_to(&other_proxy).json(&json!({})).send();
    assert_eq!(response.status(), 502, "{}", response.text());
    let response = PROXY.post(&host.url("")).json(&json!({})).send();
    assert_eq!(response.status(), 502, "{}", response.text());
    assert_eq!(host.request_count(), 1);
    let read = PROXY.server.get_path(&PROXY.keys.management, &format!("/proxies/{}", proxy.id));
    let read = read.expect_status(200);
    assert_eq!(read["client_certificate"], answer["sha256"], "{read}");
    assert!(!read.to_string().contains("PRIVATE KEY"));
}

#[test]
fn replaced_client_certificate_applies_to_the_next_call() {
    let host = host_with(HostTls::ClientCertificate);
    let authority = &PROXY.destinations.authority;
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    for name in ["first", "second"] {
        let certificate = authority.issue_client_certificate(name);
        put_certificate(&proxy, &certificate).expect_status(200);
        PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
        assert_eq!(host.last_request().client_certificate, Some(certificate.der), "{name}");
    }
}

#[test]
fn private_authority_replaces_the_trusted_ones() {
    let authority = &PROXY.destinations.authority;
    let unknown_host = host_with(HostTls::UnknownAuthority);
    let trusted_host = host_with(HostTls::Trusted);
    let pinned = json!({"ca_pem": authority.unknown_root_pem()});
    let proxy = PROXY.create_proxy_to(&unknown_host, pinned.clone());
    PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    // The private root of one proxy never vouches for another call.
    let without = PROXY.create_proxy_to(&unknown_host, json!({}));
    for request in [PROXY.post_to(&without), PROXY.post(&unknown_host.url(""))] {
        request.json(&json!({})).send().expect_not_sent(502);
    }
    let wrong_pin = PROXY.create_proxy_to(&trusted_host, pinned);
    PROXY.post_to(&wrong_pin).json(&json!({})).send().expect_not_sent(502);
    assert_eq!((unknown_host.request_count(), trusted_host.request_count()), (1, 0));
}

#[test]
fn minimum_tls_version_is_enforced() {
    let old_host = host_with(HostTls::Tls12);
    let modern_host = host_with(HostTls::Trusted);
    let default = PROXY.create_proxy_to(&old_host, json!({}));
    PROXY.post_to(&default).json(&json!({})).send().expect_answer(200);
    assert_eq!(old_host.last_request().tls_version, "TLSv1_2");
    let strict = PROXY.create_proxy_to(&old_host, json!({"tls_min": "1.3"}));
    PROXY.post_to(&strict).json(&json!({})).send().expect_not_sent(502);
    assert_eq!(old_host.request_count(), 1);
    let strict = PROXY.create_proxy_to(&modern_host, json!({"tls_min": "1.3"}));
    PROXY.post_to(&strict).json(&json!({})).send().expect_answer(200);
    assert_eq!(modern_host.last_request().tls_version, "TLSv1_3");
}

#[test]
fn http2_destination_receives_the_same_request() {
    let host = PROXY.destinations.host_with(HostTls::Trusted, HttpVersions::Http2, &[]);
    let card = PROXY.create_card();
    for count in 1..=3 {
        let request = PROXY.post(&host.url("/v1?a=b")).header("X-Value", "7");
        let body = json!({"number": card.number_expression()});
        let response =
            request.header("Connection", "X-Hop").header("X-Hop", "1").json(&body).send();
        let expected = json!({"number": card.number}).to_string();
        assert_eq!(response.expect_answer(200).text(), expected);
        let received = host.last_request();
        assert!(received.is_http2);
        assert_eq!((received.method.as_str(), received.target.as_str()), ("POST", "/v1?a=b"));
        assert_eq!(received.text(), expected);
        assert_eq!(received.header("x-value"), Some("7"));
        assert_eq!(received.header("host"), Some(host.authority().as_str()));
        assert_eq!(received.header("x-hop"), None);
        assert_eq!(host.request_count(), count);
    }
}

/// A connection of one tenant or proxy could carry its certificate or its session.
#[test]
fn connections_are_reused_within_a_proxy_and_never_shared() {
    let harness = ProxyHarness::start();
    let host = harness.destinations.host(&[]);
    let other = harness.server.create_default_tenant();
    let proxies = [json!({}), json!({}), json!({"tls_min": "1.3"})];
    let proxies = proxies.map(|it: Value| harness.create_proxy_to(&host, it));
    let foreign_proxy = harness.create_proxy_of(&other, &host.url(""), json!({}));
    let send = |request: crate::proxy::harness::ProxyRequest| {
        request.json(&json!({})).send().expect_answer(200);
        host.last_request().connection
    };
    let mut connections = Vec::new();
    for proxy in &proxies {
        let first = send(harness.post_to(proxy));
        assert_eq!(send(harness.post_to(proxy)), first, "a connection is not reused");
        connections.push(first);
    }
    connections.push(send(harness.post(&host.url(""))));
    let request = harness.request("POST", "").api_key(&other.private);
    connections.push(send(request.proxy_key(&foreign_proxy.key)));
    let request = harness.request("POST", "").api_key(&other.private);
    connections.push(send(request.url(&host.url(""))));
    let mut distinct = connections.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), connections.len(), "{connections:?}");
}

#[test]
fn invalid_certificates_are_rejected() {
    let host = host_with(HostTls::Trusted);
    let authority = &PROXY.destinations.authority;
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let (first, second) =
        (authority.issue_client_certificate("a"), authority.issue_client_certificate("b"));
    let mixed = PemCertificate { key: second.key.clone(), ..first.clone() };
    let PemCertificate { certificate, key, .. } = first;
    let swapped = PemCertificate { certificate: key, key: certificate, der: vec![] };
    for certificate in [mixed, swapped] {
        let response = put_certificate(&proxy, &certificate);
        assert_eq!(response.status, 400, "{}", response.text);
        assert!(!response.text.contains("PRIVATE"), "{}", response.text);
    }
    let body =
        crate::proxy::harness::proxy_body(&host.url(""), json!({"ca_pem": "not a certificate"}));
    let response = PROXY.server.post(&PROXY.keys.management, "/proxies", &body);
    response.expect_invalid("ca_pem");
}
