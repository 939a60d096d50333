//! Whose address counts, and that nobody can choose it.

use scrip_api::{limiter::Limiter, middleware::client_address::TrustedProxies};
use scrip_core::policy::{
    TenantKind,
    rate_limit::{EffectiveRates, RateLimitName},
};

use crate::{
    limits::harness::{RateLimitHarness, rates_with_address_limit},
    threeds_sessions::requests::expect_rejection_page,
};

const UNKNOWN_KEY: &str = "no such key";

#[test]
fn forwarded_header_of_an_untrusted_client_is_ignored() {
    let harness = RateLimitHarness::start_with(TenantKind::Production, |app| {
        app.limiter = Limiter::new(rates_with_address_limit(3), 1000);
        app.trusted_proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
    });
    for it in 0..3 {
        harness.get(&format!("203.0.113.{it}"), UNKNOWN_KEY, "/permissions").expect_status(401);
    }
    harness.get("203.0.113.9", UNKNOWN_KEY, "/permissions").expect_problem(429, "address");
    harness.get("10.0.0.1", UNKNOWN_KEY, "/permissions").expect_problem(429, "address");
    let named = harness.server.request("GET", "/permissions").key(UNKNOWN_KEY).send();
    named.expect_problem(429, "address");
}

#[test]
fn clients_behind_a_trusted_proxy_are_counted_separately() {
    let harness = RateLimitHarness::new(TenantKind::Production, rates_with_address_limit(2));
    let get = |from: &str| harness.get(from, UNKNOWN_KEY, "/permissions");
    (0..2).for_each(|_| drop(get("203.0.113.1").expect_status(401)));
    get("203.0.113.1").expect_problem(429, "address");
    // What a client wrote itself stands further left.
    get("198.51.100.7, 203.0.113.1").expect_problem(429, "address");
    get("::ffff:203.0.113.1").expect_problem(429, "address");
    get("203.0.113.2").expect_status(401);
    // One /64 is one client.
    get("2001:db8:1:1::1").expect_status(401);
    get("2001:db8:1:1:ffff::2").expect_status(401);
    get("2001:db8:1:1:abcd::3").expect_problem(429, "address");
    get("2001:db8:1:2::1").expect_status(401);
    // What cannot be read is the proxy itself.
    (0..2).for_each(|_| drop(get("203.0.113.8, nonsense").expect_status(401)));
    get("203.0.113.9, nonsense").expect_problem(429, "address");
    get("203.0.113.9").expect_status(401);
}

/// The address that is counted is the one that is written down; whole, not its network.
#[test]
fn audit_record_has_the_client_address() {
    let harness = RateLimitHarness::new(TenantKind::Production, EffectiveRates::default());
    for from in ["203.0.113.77", "2001:db8:1:1::77", "::ffff:203.0.113.78"] {
        let body = crate::harness::server::card_body(&crate::harness::server::unique_card_number());
        harness
            .request(from, "POST", "/tokens")
            .key(&harness.keys.private)
            .json(&body)
            .send()
            .expect_status(201);
    }
    let sql = "SELECT address FROM audit WHERE operation = 'create_token' ORDER BY n";
    let found = harness.server.engine.select(sql).concat();
    assert_eq!(found, ["203.0.113.77", "2001:db8:1:1::77", "203.0.113.78"]);
}

/// Before anything is read or looked up, and in the language of who posts: a page, or a problem.
#[test]
fn keyless_requests_count_toward_the_address_limit() {
    let harness = RateLimitHarness::new(TenantKind::Test, rates_with_address_limit(3));
    let session = "/3ds/sessions/8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
    let post = |path: &str, form: &str, body: &str| {
        harness.request("203.0.113.1", "POST", &format!("{session}{path}")).body(form, body).send()
    };
    let form = "application/x-www-form-urlencoded";
    expect_rejection_page(&post("/method-notification", form, "threeDSMethodData=e30"), 400);
    expect_rejection_page(&post("/challenge-notification", form, "cres=e30"), 400);
    post("/results/secret", "application/json", "{}").expect_status(200);
    for path in ["/method-notification", "/challenge-notification"] {
        let rejected = post(path, form, "");
        expect_rejection_page(&rejected, 429);
        assert!(rejected.headers.contains_key("retry-after"));
    }
    post("/results/secret", "application/json", "{}").expect_problem(429, "address");
}

/// A client that went over at one row is not held against another at the same address.
#[test]
fn requests_with_unknown_keys_count_only_toward_the_address_limit() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    let here = "198.51.100.1";
    for _ in 0..100 {
        harness.get(here, UNKNOWN_KEY, "/permissions").expect_status(401);
    }
    for _ in 0..50 {
        harness.get(here, &harness.keys.private, "/permissions").expect_status(200);
    }
    harness.get(here, &harness.keys.private, "/permissions").expect_problem(429, "test_tenant");
    let address = harness.server.app.limiter.decisions();
    let address = address.iter().find(|it| it.name == RateLimitName::Address).unwrap();
    assert_eq!(address.allowed, 150);
}
