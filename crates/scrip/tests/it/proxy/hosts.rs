//! Proxies that a host name selects, and the rate limits of calls without an API key.

use std::sync::Arc;

use scrip_api::{app::trusted_proxies::TrustedProxies, limiter::Limiter};
use scrip_core::{
    operations::proxies::set_proxy_host::{add_proxy_host, remove_proxy_host},
    policy::{
        PolicyPermit,
        destination::HostName,
        rate_limit::{EffectiveRates, RateLimitName},
    },
    types::{TenantKind, id::ProxyId},
};
use serde_json::json;

use crate::{
    limits::harness::default_rate,
    proxy::harness::{CreatedProxy, PROXY, ProxyHarness, ProxyResponse},
};

/// Maps a host to a proxy, like the operator's command.
pub(crate) fn map_host(harness: &ProxyHarness, proxy: &CreatedProxy, host: &str) {
    let (app, runtime) = (&harness.server.app, &harness.server.runtime);
    let permit = PolicyPermit::for_operator(Arc::clone(&harness.keys.tenant));
    let id = ProxyId::parse(&proxy.id).unwrap();
    runtime.block_on(async {
        add_proxy_host(&app.vault, permit, id, HostName::parse(host).unwrap()).await.unwrap();
        app.reload().await.unwrap();
    });
}

fn unmap_host(harness: &ProxyHarness, proxy: &CreatedProxy, host: &str) {
    let (app, runtime) = (&harness.server.app, &harness.server.runtime);
    let permit = PolicyPermit::for_operator(Arc::clone(&harness.keys.tenant));
    let id = ProxyId::parse(&proxy.id).unwrap();
    runtime.block_on(async {
        remove_proxy_host(&app.vault, permit, id, HostName::parse(host).unwrap()).await.unwrap();
        app.reload().await.unwrap();
    });
}

/// Sends a request to a host name, without `/proxy` in its path.
fn send_to_host(harness: &ProxyHarness, host: &str, path: &str) -> ProxyResponse {
    harness.request_at("POST", path).header("Host", host).json(&json!({"a": 1})).send()
}

#[test]
fn host_name_selects_its_proxy_without_a_key() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy(&host.url("/base"), json!({"require_auth": false}));
    map_host(&PROXY, &proxy, "pay.shop.example");
    for (name, path, target) in [
        ("pay.shop.example", "/proxy/charges?a=1", "/base/charges?a=1"),
        ("PAY.Shop.example", "/proxy", "/base"),
        ("pay.shop.example:8443", "/proxy/x", "/base/x"),
    ] {
        send_to_host(&PROXY, name, path).expect_answer(200);
        assert_eq!(host.last_request().target, target, "{name}");
        assert_eq!(host.last_request().header("host"), Some(host.authority().as_str()));
    }
    let count = host.request_count();
    for name in ["shop.example", "x.pay.shop.example", "pay.shop.example.attacker.test"] {
        let response = send_to_host(&PROXY, name, "/proxy/x");
        assert!([400, 401, 404].contains(&response.status()), "{name}: {}", response.text());
    }
    assert_eq!(host.request_count(), count);
    unmap_host(&PROXY, &proxy, "pay.shop.example");
    let response = send_to_host(&PROXY, "pay.shop.example", "/proxy/x");
    assert!([400, 401, 404].contains(&response.status()), "{}", response.text());
    assert_eq!(host.request_count(), count);
}

#[test]
fn host_name_does_not_replace_the_api_key() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy(&host.url(""), json!({}));
    map_host(&PROXY, &proxy, "closed.shop.example");
    send_to_host(&PROXY, "closed.shop.example", "/proxy/x").expect_not_sent(401);
    let request = PROXY.request_at("POST", "/proxy/x").header("Host", "closed.shop.example");
    request.api_key(&PROXY.keys.private).json(&json!({})).send().expect_answer(200);
    let other = PROXY.server.create_default_tenant();
    let request = PROXY.request_at("POST", "/proxy/x").header("Host", "closed.shop.example");
    request.api_key(&other.private).json(&json!({})).send().expect_not_sent(404);
    assert_eq!(host.request_count(), 1);
}

const CLIENT: &str = "198.51.100.1";

fn limited_harness() -> ProxyHarness {
    ProxyHarness::start_with_kind(TenantKind::Production, |setup, _| {
        setup.limiter = Limiter::new(EffectiveRates::default(), 10_000);
        setup.settings.trusted_proxies = TrustedProxies(vec!["127.0.0.1/32".parse().unwrap()]);
    })
}

#[test]
fn keyless_calls_are_limited_by_proxy_key_and_address() {
    let harness = limited_harness();
    let host = harness.destinations.host(&[]);
    let create = || harness.create_proxy_to(&host, json!({"require_auth": false}));
    let (proxy, other_proxy) = (create(), create());
    let send = |proxy: &CreatedProxy, client: &str| {
        harness.post_keyless(proxy).header("X-Forwarded-For", client).json(&json!({})).send()
    };
    let limit = default_rate(RateLimitName::KeylessProxy).requests.get();
    for _ in 0..limit {
        send(&proxy, CLIENT).expect_answer(200);
    }
    let response = send(&proxy, CLIENT);
    let error = response.expect_not_sent(429);
    assert!(error.to_string().contains("keyless_proxy"), "{error}");
    assert!(response.header("retry-after").is_some());
    send(&proxy, "198.51.100.2").expect_answer(200);
    send(&other_proxy, CLIENT).expect_answer(200);
    // A caller with an API key has its own limit.
    let request = harness.post_to(&proxy).header("X-Forwarded-For", CLIENT);
    request.json(&json!({})).send().expect_answer(200);
}

#[test]
fn calls_by_host_name_are_limited_by_host_and_address() {
    let harness = limited_harness();
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_to(&host, json!({"require_auth": false}));
    map_host(&harness, &proxy, "pay.limited.example");
    let send = |client: &str| {
        let request = harness.request_at("POST", "/proxy").header("Host", "pay.limited.example");
        request.header("X-Forwarded-For", client).json(&json!({})).send()
    };
    let limit = default_rate(RateLimitName::ProxyHostname).requests.get();
    for _ in 0..limit {
        send(CLIENT).expect_answer(200);
    }
    let error = send(CLIENT).expect_not_sent(429);
    assert!(error.to_string().contains("proxy_hostname"), "{error}");
    send("198.51.100.2").expect_answer(200);
}
