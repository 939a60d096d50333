//! Every row of the rate table, tested at its limit.

use std::{num::NonZeroU32, sync::Arc};

use scrip_core::{
    operations::applications::create_api_key::import_api_key,
    policy::{
        ApiKeyText, PolicyPermit, TenantSettings,
        rate_limit::{
            EffectiveRates,
            RateLimitName::{
                self, CreateTokens, DeleteToken, ListTokens, SearchTokens, UpdateToken,
            },
        },
        tenant::quota::RateLimitShare,
    },
    types::TenantKind,
};
use serde_json::json;

use crate::{
    harness::server::{TestResponse, text_field},
    limits::harness::{RateLimitHarness, default_rate, rates_with_address_limit, to_ms},
};

const CLIENT: &str = "198.51.100.1";

fn production_harness() -> RateLimitHarness {
    RateLimitHarness::new(TenantKind::Production, EffectiveRates::default())
}

/// Expects that exactly the limit is admitted and that the window slides with millisecond
/// precision.
#[track_caller]
fn check_throttles(
    harness: &RateLimitHarness,
    name: RateLimitName,
    send: impl Fn(u32) -> TestResponse,
) {
    let rate = default_rate(name);
    let (limit, window_ms) = (rate.requests.get(), to_ms(rate.window));
    let half = limit / 2;
    (0..half).for_each(|it| send(it).expect_not_limited());
    harness.advance_ms(window_ms / 2);
    (half..limit).for_each(|it| send(it).expect_not_limited());
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, window_ms / 2 + 1);
    harness.advance_ms(window_ms / 2);
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, 1);
    harness.advance_ms(1);
    // The first half of the requests is no longer in the window, and rejected requests did not
    // count.
    (0..half).for_each(|it| send(it).expect_not_limited());
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, window_ms / 2);
}

/// Expects that exactly the limit is admitted. Then every request is rejected for the whole
/// duration of the block, even if the window is empty.
#[track_caller]
fn check_blocks(
    harness: &RateLimitHarness,
    name: RateLimitName,
    send: impl Fn(u32) -> TestResponse,
) {
    let rate = default_rate(name);
    let (limit, window_ms) = (rate.requests.get(), to_ms(rate.window));
    let block_ms = to_ms(rate.block_duration().unwrap());
    (0..limit).for_each(|it| send(it).expect_not_limited());
    let late_ms = window_ms - (block_ms / 2).min(window_ms);
    harness.advance_ms(late_ms);
    let wait_ms = (block_ms + 1).max(window_ms - late_ms + 1);
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, wait_ms);
    harness.advance_ms(window_ms - late_ms + 1);
    let left_ms = block_ms - (window_ms - late_ms);
    assert!(left_ms > 0, "the block ends before the window is free");
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, left_ms);
    harness.advance_ms(left_ms - 1);
    send(limit).expect_rate_limited(harness.now_ms(), name, limit, 1);
    harness.advance_ms(1);
    (0..limit).for_each(|it| send(it).expect_not_limited());
    assert_eq!(send(limit).status, 429);
}

#[test]
fn test_tenant_is_limited_to_50_requests_in_10_seconds() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    let key = &harness.keys.private;
    check_throttles(&harness, RateLimitName::TestTenant, |_| {
        harness.get(CLIENT, key, "/permissions")
    });
    // The counter belongs to a key and an address: another address or another key has its own.
    harness.get("198.51.100.2", key, "/permissions").expect_status(200);
    harness.get(CLIENT, &harness.keys.public, "/permissions").expect_status(200);
    harness.get(CLIENT, key, "/permissions").expect_problem(429, "test_tenant");
}

/// A limit, the method and the paths that it counts together, and a path that it does not count,
/// with the status of a GET request.
type OperationLimit =
    (RateLimitName, &'static str, &'static [&'static str], Option<(&'static str, u16)>);

const OPERATION_LIMITS: &[OperationLimit] = &[
    (SearchTokens, "POST", &["/tokens/search", "/v2/tokens/search"], Some(("/tokens", 200))),
    (ListTokens, "GET", &["/tokens", "/v2/tokens"], Some(("/tokens/no-such-token", 404))),
    (CreateTokens, "POST", &["/tokens", "/tokenize"], Some(("/tokens", 200))),
    (UpdateToken, "PATCH", &["/tokens/none"], None),
    (DeleteToken, "DELETE", &["/tokens/none"], None),
];

#[test]
fn token_operations_have_their_own_rate_limits() {
    for (name, method, paths, uncounted) in OPERATION_LIMITS {
        let harness = production_harness();
        let key = &harness.keys.private;
        check_throttles(&harness, *name, |it| {
            let path = paths[usize::try_from(it).unwrap() % paths.len()];
            let request = harness.request(CLIENT, method, path).key(key);
            match *method {
                "POST" => request.json(&json!([])).send(),
                "PATCH" => request.merge_patch(&json!({})).send(),
                _ => request.send(),
            }
        });
        if let Some((path, status)) = uncounted {
            harness.get(CLIENT, key, path).expect_status(*status);
        }
    }
}

#[test]
fn private_key_limit_counts_all_addresses() {
    let harness = production_harness();
    let key = &harness.keys.private;
    check_throttles(&harness, RateLimitName::PrivateApplication, |it| {
        harness.get(&format!("198.51.100.{}", it % 4), key, "/permissions")
    });
    let response = harness.get("203.0.113.1", key, "/permissions");
    response.expect_problem(429, "private_application");
}

#[test]
fn private_keys_of_one_address_share_a_rate_limit() {
    let harness = RateLimitHarness::new(TenantKind::Production, rates_with_address_limit(100_000));
    let (kind, settings) = (TenantKind::Production, TenantSettings::default());
    let other_tenant_keys = harness.server.create_tenant_of_kind(kind, settings);
    let keys = [&harness.keys.private, &other_tenant_keys.private];
    check_throttles(&harness, RateLimitName::PrivateApplication, |it| {
        harness.get(CLIENT, keys[usize::try_from(it % 2).unwrap()], "/permissions")
    });
    harness.get("198.51.100.2", keys[0], "/permissions").expect_status(200);
    // Public keys at this address are not counted.
    harness.get(CLIENT, &other_tenant_keys.public, "/permissions").expect_status(200);
}

#[test]
fn public_key_over_its_limit_is_blocked_for_10_seconds() {
    let harness = production_harness();
    let key = &harness.keys.public;
    check_blocks(&harness, RateLimitName::PublicApplication, |_| {
        harness.get(CLIENT, key, "/permissions")
    });
    harness.get("198.51.100.2", key, "/permissions").expect_status(200);
}

#[test]
fn access_session_is_limited_like_a_public_key() {
    let harness = production_harness();
    let request = harness.request(CLIENT, "POST", "/sessions").key(&harness.keys.public);
    let key = text_field(&request.send().expect_status(201), "session_key");
    check_blocks(&harness, RateLimitName::PublicApplication, |_| {
        harness.get(CLIENT, &key, "/permissions")
    });
    // The application that created the session has its own counter.
    harness.get(CLIENT, &harness.keys.public, "/permissions").expect_status(200);
}

#[test]
fn management_key_over_its_limit_is_blocked_for_a_minute() {
    let harness = production_harness();
    let key = &harness.keys.management;
    check_blocks(&harness, RateLimitName::ManagementApplication, |it| {
        harness.get(&format!("198.51.100.{}", it % 3), key, "/permissions")
    });
}

#[test]
fn address_over_its_limit_is_blocked_for_30_seconds() {
    let harness = production_harness();
    check_blocks(&harness, RateLimitName::Address, |it| match it % 4 {
        0 => harness.get(CLIENT, "no such key", "/permissions"),
        1 => harness.request(CLIENT, "GET", "/no/such/path").send(),
        2 => harness.request(CLIENT, "GET", "/docs/style.css").send(),
        _ => harness.request(CLIENT, "DELETE", "/permissions").send(),
    });
    // A valid key from this address is also rejected. Other addresses are not blocked.
    harness.get(CLIENT, &harness.keys.private, "/permissions").expect_problem(429, "address");
    harness.get("198.51.100.2", &harness.keys.private, "/permissions").expect_status(200);
    // Probes and preflights are still served.
    harness.request(CLIENT, "GET", "/healthz").send().expect_status(200);
    harness.request(CLIENT, "GET", "/readyz").send().expect_status(200);
    assert_eq!(harness.request(CLIENT, "OPTIONS", "/tokens").send().status, 204);
    harness.request(CLIENT, "GET", "/openapi.json").send().expect_problem(429, "address");
}

#[test]
fn probes_and_preflights_are_not_counted() {
    let harness = RateLimitHarness::new(TenantKind::Production, rates_with_address_limit(3));
    for _ in 0..5 {
        harness.request(CLIENT, "GET", "/healthz").send().expect_status(200);
        harness.request(CLIENT, "GET", "/readyz").send().expect_status(200);
        assert_eq!(harness.request(CLIENT, "OPTIONS", "/tokens").send().status, 204);
    }
    for _ in 0..3 {
        harness.get(CLIENT, "no such key", "/permissions").expect_status(401);
    }
    harness.get(CLIENT, "no such key", "/permissions").expect_problem(429, "address");
}

#[test]
fn legacy_key_is_limited_to_100_requests_a_minute() {
    let harness = production_harness();
    let directory = harness.server.app.directory.load_full().unwrap();
    let tenant = directory.tenant(harness.keys.tenant.id).unwrap();
    let private = scrip_core::types::ApplicationKind::Private;
    let application = tenant.applications.values().find(|it| it.record.kind == private).unwrap();
    let legacy_key = ApiKeyText::parse("key_3Bv9xWkTq7LmZr2NpYc8Hd").unwrap();
    let (app, permit) = (&harness.server.app, PolicyPermit::for_operator(Arc::clone(tenant)));
    harness.server.runtime.block_on(async {
        let (pepper, id) = (app.pepper().unwrap(), application.record.id);
        import_api_key(&app.vault, permit, &pepper, id, legacy_key.clone()).await.unwrap();
        app.reload().await.unwrap();
    });
    check_throttles(&harness, RateLimitName::LegacyKey, |_| {
        harness.get(CLIENT, legacy_key.expose(), "/permissions")
    });
    harness.get("198.51.100.2", legacy_key.expose(), "/permissions").expect_status(200);
    harness.get(CLIENT, &harness.keys.private, "/permissions").expect_status(200);
}

#[test]
fn lowest_rate_decides_and_rejected_requests_are_not_counted() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    let key = &harness.keys.management;
    let send_request = || harness.get(CLIENT, key, "/permissions");
    // The limits are 50 requests in 10 seconds for a test tenant and 200 per minute for a
    // management key.
    for _ in 0..3 {
        (0..50).for_each(|_| send_request().expect_not_limited());
        (0..50).for_each(|_| send_request().expect_problem(429, "test_tenant"));
        harness.advance_ms(10_001);
    }
    (0..50).for_each(|_| send_request().expect_not_limited());
    harness.advance_ms(10_001);
    let name = RateLimitName::ManagementApplication;
    send_request().expect_rate_limited(harness.now_ms(), name, 200, 60_001);
}

#[test]
fn changed_tenant_share_applies_to_the_next_request() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    let share_of = |it| RateLimitShare::Percent(NonZeroU32::new(it).unwrap());
    let send_request = || harness.get(CLIENT, &harness.keys.private, "/permissions");
    (0..30).for_each(|_| send_request().expect_not_limited());
    harness.set_share(share_of(50));
    send_request().expect_rate_limited(harness.now_ms(), RateLimitName::TestTenant, 25, 10_001);
    harness.set_share(share_of(200));
    (0..70).for_each(|_| send_request().expect_not_limited());
    send_request().expect_rate_limited(harness.now_ms(), RateLimitName::TestTenant, 100, 10_001);
    harness.set_share(RateLimitShare::Off);
    (0..1900).for_each(|_| send_request().expect_not_limited());
    send_request().expect_rate_limited(harness.now_ms(), RateLimitName::Address, 2000, 30_001);
}

#[test]
fn disabled_rate_limits_allow_everything() {
    let harness = RateLimitHarness::start_with(TenantKind::Test, |_| ());
    for _ in 0..2100 {
        harness.get(CLIENT, &harness.keys.private, "/permissions").expect_status(200);
    }
}

#[test]
fn decisions_are_counted_by_rate_limit() {
    let harness = RateLimitHarness::new(TenantKind::Test, EffectiveRates::default());
    for _ in 0..53 {
        harness.get(CLIENT, &harness.keys.private, "/permissions");
    }
    harness.get(CLIENT, "no such key", "/permissions").expect_status(401);
    let limiter = &harness.server.app.limiter;
    let decisions_of = |row: RateLimitName| {
        let decisions = limiter.decisions();
        let decision = decisions.iter().find(|it| it.name == row).unwrap();
        (decision.allowed, decision.rejected)
    };
    assert_eq!(decisions_of(RateLimitName::TestTenant), (50, 3));
    assert_eq!(decisions_of(RateLimitName::PrivateApplication), (50, 0));
    assert_eq!(decisions_of(RateLimitName::Address), (51, 0));
    assert_eq!(decisions_of(RateLimitName::LegacyKey), (0, 0));
    assert_eq!(limiter.shared_counter_failures(), None);
    assert_eq!(limiter.counter_usage().counters, 4);
}
