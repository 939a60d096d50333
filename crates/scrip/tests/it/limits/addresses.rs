//! The client address that the rate limits count. Clients cannot choose it.

use scrip_api::{app::trusted_proxies::TrustedProxies, limiter::Limiter};
use scrip_core::{
    policy::rate_limit::{EffectiveRates, RateLimitName},
    types::TenantKind,
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
        app.settings.trusted_proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
    });
    for it in 0..3 {
        harness.get(&format!("203.0.113.{it}"), UNKNOWN_KEY, "/permissions").expect_status(401);
    }
    harness.get("203.0.113.9", UNKNOWN_KEY, "/permissions").expect_problem(429, "address");
    harness.get("10.0.0.1", UNKNOWN_KEY, "/permissions").expect_problem(429, "address");
    let response = harness.server.request("GET", "/permissions").key(UNKNOWN_KEY).send();
    response.expect_problem(429, "address");
}

#[test]
fn clients_behind_a_trusted_proxy_are_counted_separately() {
    let harness = RateLimitHarness::new(TenantKind::Production, rates_with_address_limit(2));
    let send_from = |client_address: &str| harness.get(client_address, UNKNOWN_KEY, "/permissions");
    (0..2).for_each(|_| drop(send_from("203.0.113.1").expect_status(401)));
    send_from("203.0.113.1").expect_problem(429, "address");
    // In the header, entries that the client wrote are to the left of the entry of the proxy.
    send_from("198.51.100.7, 203.0.113.1").expect_problem(429, "address");
    send_from("::ffff:203.0.113.1").expect_problem(429, "address");
    send_from("203.0.113.2").expect_status(401);
    // One IPv6 /64 counts as one client.
    send_from("2001:db8:1:1::1").expect_status(401);
    send_from("2001:db8:1:1:ffff::2").expect_status(401);
    send_from("2001:db8:1:1:abcd::3").expect_problem(429, "address");
    send_from("2001:db8:1:2::1").expect_status(401);
    // A request with an unreadable header counts for the address of the proxy.
    (0..2).for_each(|_| drop(send_from("203.0.113.8, nonsense").expect_status(401)));
    send_from("203.0.113.9, nonsense").expect_problem(429, "address");
    send_from("203.0.113.9").expect_status(401);
}

/// The audit record contains the full address that is counted, not its network.
#[test]
fn audit_record_has_the_client_address() {
    let harness = RateLimitHarness::new(TenantKind::Production, EffectiveRates::default());
    for client_address in ["203.0.113.77", "2001:db8:1:1::77", "::ffff:203.0.113.78"] {
        let body = crate::harness::server::card_body(&crate::harness::server::unique_card_number());
        let request = harness.request(client_address, "POST", "/tokens");
        request.key(&harness.keys.private).json(&body).send().expect_status(201);
    }
    let sql = "SELECT address FROM log_records WHERE operation = 'create_token' ORDER BY sequence";
    let recorded_addresses = harness.server.engine.select(sql).concat();
    assert_eq!(recorded_addresses, ["203.0.113.77", "2001:db8:1:1::77", "203.0.113.78"]);
}

/// The limit applies before the body is read. The rejection has the format of the endpoint: a page
/// for a browser, a problem for other clients.
#[test]
fn keyless_requests_count_toward_the_address_limit() {
    let harness = RateLimitHarness::new(TenantKind::Test, rates_with_address_limit(3));
    let session = "/3ds/sessions/8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
    let send_post = |path: &str, form: &str, body: &str| {
        harness.request("203.0.113.1", "POST", &format!("{session}{path}")).body(form, body).send()
    };
    let form = "application/x-www-form-urlencoded";
    expect_rejection_page(&send_post("/method-notification", form, "threeDSMethodData=e30"), 400);
    expect_rejection_page(&send_post("/challenge-notification", form, "cres=e30"), 400);
    send_post("/results/secret", "application/json", "{}").expect_status(200);
    for path in ["/method-notification", "/challenge-notification"] {
        let rejected_response = send_post(path, form, "");
        expect_rejection_page(&rejected_response, 429);
        assert!(rejected_response.headers.contains_key("retry-after"));
    }
    send_post("/results/secret", "application/json", "{}").expect_problem(429, "address");
}

/// A request that another limit rejects does not count toward the address limit.
#[test]
fn requests_with_unknown_keys_count_only_toward_the_address_limit() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    let client_address = "198.51.100.1";
    for _ in 0..100 {
        harness.get(client_address, UNKNOWN_KEY, "/permissions").expect_status(401);
    }
    for _ in 0..50 {
        harness.get(client_address, &harness.keys.private, "/permissions").expect_status(200);
    }
    let limited = harness.get(client_address, &harness.keys.private, "/permissions");
    limited.expect_problem(429, "test_tenant");
    let address = harness.server.app.limiter.decisions();
    let address = address.iter().find(|it| it.name == RateLimitName::Address).unwrap();
    assert_eq!(address.allowed, 150);
}
