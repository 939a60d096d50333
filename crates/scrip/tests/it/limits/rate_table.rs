//! Every row of the rate table at its boundary.

use std::{num::NonZeroU32, sync::Arc};

use scrip_core::{
    operations::applications::create_api_key::import_api_key,
    policy::{
        ApiKeyText, Mandate, TenantKind,
        rate_limit::{Figures, Row},
        tenant::quota::RateLimit,
    },
};
use serde_json::json;

use crate::{
    harness::server::{Reply, text},
    limits::harness::{LimitsHarness, ms, published, requests},
};

const HERE: &str = "198.51.100.1";

fn production() -> LimitsHarness {
    LimitsHarness::new(TenantKind::Production, Figures::default())
}

/// So many are let in and no more; the window slides, and not a millisecond early.
#[track_caller]
fn throttles(scene: &LimitsHarness, row: Row, ask: impl Fn(u32) -> Reply) {
    let rate = published(row);
    let (limit, window_ms) = (rate.requests.get(), ms(rate.window));
    let half = limit / 2;
    (0..half).for_each(|it| ask(it).counted());
    scene.advance_ms(window_ms / 2);
    (half..limit).for_each(|it| ask(it).counted());
    ask(limit).throttled(scene.now_ms(), row, limit, window_ms / 2 + 1);
    scene.advance_ms(window_ms / 2);
    ask(limit).throttled(scene.now_ms(), row, limit, 1);
    scene.advance_ms(1);
    // The first half has left, and the refused ones did not count.
    (0..half).for_each(|it| ask(it).counted());
    ask(limit).throttled(scene.now_ms(), row, limit, window_ms / 2);
}

/// So many are let in; then everything is refused for the whole time, also when the window is free.
#[track_caller]
fn blocks(scene: &LimitsHarness, row: Row, ask: impl Fn(u32) -> Reply) {
    let rate = published(row);
    let (limit, window_ms) = (rate.requests.get(), ms(rate.window));
    let block_ms = ms(rate.block().unwrap());
    (0..limit).for_each(|it| ask(it).counted());
    let late_ms = window_ms - (block_ms / 2).min(window_ms);
    scene.advance_ms(late_ms);
    let wait_ms = (block_ms + 1).max(window_ms - late_ms + 1);
    ask(limit).throttled(scene.now_ms(), row, limit, wait_ms);
    scene.advance_ms(window_ms - late_ms + 1);
    let left_ms = block_ms - (window_ms - late_ms);
    assert!(left_ms > 0, "the window is free before the block is over");
    ask(limit).throttled(scene.now_ms(), row, limit, left_ms);
    scene.advance_ms(left_ms - 1);
    ask(limit).throttled(scene.now_ms(), row, limit, 1);
    scene.advance_ms(1);
    (0..limit).for_each(|it| ask(it).counted());
    assert_eq!(ask(limit).status, 429);
}

#[test]
fn a_test_tenant_has_fifty_in_ten_seconds() {
    let scene = LimitsHarness::new(TenantKind::Test, Figures::default());
    let key = &scene.keys.private;
    throttles(&scene, Row::TestTenant, |_| scene.get(HERE, key, "/permissions"));
    // By key and address: another address has its own, and so has another key.
    scene.get("198.51.100.2", key, "/permissions").is(200);
    scene.get(HERE, &scene.keys.public, "/permissions").is(200);
    scene.get(HERE, key, "/permissions").refused(429, "test_tenant");
}

#[test]
fn searches() {
    let scene = production();
    let key = &scene.keys.private;
    let paths = ["/tokens/search", "/v2/tokens/search"];
    throttles(&scene, Row::SearchTokens, |it| {
        let path = paths[usize::try_from(it % 2).unwrap()];
        scene.ask(HERE, "POST", path).key(key).json(&json!({"query": 1})).send()
    });
    scene.get(HERE, key, "/tokens").is(200);
}

#[test]
fn lists_and_not_single_tokens() {
    let scene = production();
    let key = &scene.keys.private;
    let paths = ["/tokens", "/v2/tokens"];
    throttles(&scene, Row::ListTokens, |it| {
        scene.get(HERE, key, paths[usize::try_from(it % 2).unwrap()])
    });
    scene.get(HERE, key, "/tokens/no-such-token").is(404);
}

#[test]
fn creates_and_tokenize_together() {
    let scene = production();
    let key = &scene.keys.private;
    let paths = ["/tokens", "/tokenize"];
    throttles(&scene, Row::CreateTokens, |it| {
        let path = paths[usize::try_from(it % 2).unwrap()];
        scene.ask(HERE, "POST", path).key(key).json(&json!([])).send()
    });
    scene.get(HERE, key, "/tokens").is(200);
}

#[test]
fn updates() {
    let scene = production();
    let key = &scene.keys.private;
    throttles(&scene, Row::UpdateToken, |_| {
        scene.ask(HERE, "PATCH", "/tokens/none").key(key).patch(&json!({})).send()
    });
}

#[test]
fn deletes() {
    let scene = production();
    let key = &scene.keys.private;
    throttles(&scene, Row::DeleteToken, |_| {
        scene.ask(HERE, "DELETE", "/tokens/none").key(key).send()
    });
}

#[test]
fn a_private_key_from_many_addresses() {
    let scene = production();
    let key = &scene.keys.private;
    throttles(&scene, Row::PrivateApplication, |it| {
        scene.get(&format!("198.51.100.{}", it % 4), key, "/permissions")
    });
    let reply = scene.get("203.0.113.1", key, "/permissions");
    reply.refused(429, "private_application");
}

#[test]
fn private_keys_of_one_address() {
    let scene = LimitsHarness::new(TenantKind::Production, requests(100_000));
    let other =
        scene.server.tenant_of(TenantKind::Production, scrip_core::policy::Settings::default());
    let keys = [&scene.keys.private, &other.private];
    throttles(&scene, Row::PrivateApplication, |it| {
        scene.get(HERE, keys[usize::try_from(it % 2).unwrap()], "/permissions")
    });
    scene.get("198.51.100.2", keys[0], "/permissions").is(200);
    // A public key there is no private one.
    scene.get(HERE, &other.public, "/permissions").is(200);
}

#[test]
fn a_public_key_is_blocked_for_ten_seconds() {
    let scene = production();
    let key = &scene.keys.public;
    blocks(&scene, Row::PublicApplication, |_| scene.get(HERE, key, "/permissions"));
    scene.get("198.51.100.2", key, "/permissions").is(200);
}

#[test]
fn a_session_is_as_a_public_key() {
    let scene = production();
    let session = scene.ask(HERE, "POST", "/sessions").key(&scene.keys.public).send().is(201);
    let key = text(&session, "session_key");
    blocks(&scene, Row::PublicApplication, |_| scene.get(HERE, &key, "/permissions"));
    // The application that began it has a counter of its own.
    scene.get(HERE, &scene.keys.public, "/permissions").is(200);
}

#[test]
fn a_management_key_is_blocked_for_a_minute_wherever_it_is() {
    let scene = production();
    let key = &scene.keys.management;
    blocks(&scene, Row::ManagementApplication, |it| {
        scene.get(&format!("198.51.100.{}", it % 3), key, "/permissions")
    });
}

#[test]
fn an_address_is_blocked_for_half_a_minute_whoever_asks() {
    let scene = production();
    blocks(&scene, Row::Address, |it| match it % 4 {
        0 => scene.get(HERE, "no such key", "/permissions"),
        1 => scene.ask(HERE, "GET", "/no/such/path").send(),
        2 => scene.ask(HERE, "GET", "/docs/style.css").send(),
        _ => scene.ask(HERE, "DELETE", "/permissions").send(),
    });
    // A key that is known does not help, and nobody else is blocked.
    scene.get(HERE, &scene.keys.private, "/permissions").refused(429, "address");
    scene.get("198.51.100.2", &scene.keys.private, "/permissions").is(200);
    // Probes and preflights are answered.
    scene.ask(HERE, "GET", "/healthz").send().is(200);
    scene.ask(HERE, "GET", "/readyz").send().is(200);
    assert_eq!(scene.ask(HERE, "OPTIONS", "/tokens").send().status, 204);
    scene.ask(HERE, "GET", "/openapi.json").send().refused(429, "address");
}

#[test]
fn probes_and_preflights_do_not_count() {
    let scene = LimitsHarness::new(TenantKind::Production, requests(3));
    for _ in 0..5 {
        scene.ask(HERE, "GET", "/healthz").send().is(200);
        scene.ask(HERE, "GET", "/readyz").send().is(200);
        assert_eq!(scene.ask(HERE, "OPTIONS", "/tokens").send().status, 204);
    }
    for _ in 0..3 {
        scene.get(HERE, "no such key", "/permissions").is(401);
    }
    scene.get(HERE, "no such key", "/permissions").refused(429, "address");
}

#[test]
fn a_legacy_key_has_a_hundred_a_minute() {
    let scene = production();
    let known = scene.server.app.directory.load_full().unwrap();
    let tenant = known.tenant(scene.keys.tenant.id).unwrap();
    let private = scrip_core::policy::ApplicationKind::Private;
    let application = tenant.applications.values().find(|it| it.record.kind == private).unwrap();
    let legacy = ApiKeyText::parse("key_3Bv9xWkTq7LmZr2NpYc8Hd").unwrap();
    let (app, mandate) = (&scene.server.app, Mandate::of_operator(Arc::clone(tenant)));
    scene.server.runtime.block_on(async {
        let (pepper, id) = (app.pepper().unwrap(), application.record.id);
        import_api_key(&app.vault, mandate, &pepper, id, legacy.clone()).await.unwrap();
        app.reload().await.unwrap();
    });
    throttles(&scene, Row::LegacyKey, |_| scene.get(HERE, legacy.expose(), "/permissions"));
    scene.get("198.51.100.2", legacy.expose(), "/permissions").is(200);
    scene.get(HERE, &scene.keys.private, "/permissions").is(200);
}

#[test]
fn the_lowest_rate_decides_and_a_refused_request_counts_nowhere() {
    let scene = LimitsHarness::new(TenantKind::Test, Figures::default());
    let key = &scene.keys.management;
    let get = || scene.get(HERE, key, "/permissions");
    // Fifty in ten seconds for a test tenant, two hundred a minute for a management key.
    for _ in 0..3 {
        (0..50).for_each(|_| get().counted());
        (0..50).for_each(|_| get().refused(429, "test_tenant"));
        scene.advance_ms(10_001);
    }
    (0..50).for_each(|_| get().counted());
    scene.advance_ms(10_001);
    get().throttled(scene.now_ms(), Row::ManagementApplication, 200, 60_001);
}

#[test]
fn a_tenants_share_counts_from_the_next_request_on() {
    let scene = LimitsHarness::new(TenantKind::Test, Figures::default());
    let percent = |it| RateLimit::Percent(NonZeroU32::new(it).unwrap());
    let get = || scene.get(HERE, &scene.keys.private, "/permissions");
    (0..30).for_each(|_| get().counted());
    scene.set_share(percent(50));
    get().throttled(scene.now_ms(), Row::TestTenant, 25, 10_001);
    scene.set_share(percent(200));
    (0..70).for_each(|_| get().counted());
    get().throttled(scene.now_ms(), Row::TestTenant, 100, 10_001);
    scene.set_share(RateLimit::Off);
    (0..1900).for_each(|_| get().counted());
    get().throttled(scene.now_ms(), Row::Address, 2000, 30_001);
}

#[test]
fn off_is_off() {
    let scene = LimitsHarness::with(TenantKind::Test, |_| ());
    for _ in 0..2100 {
        scene.get(HERE, &scene.keys.private, "/permissions").is(200);
    }
}

/// What was decided can be sampled.
#[test]
fn decisions_are_tallied_by_row() {
    let scene = LimitsHarness::new(TenantKind::Test, Figures::default());
    for _ in 0..53 {
        scene.get(HERE, &scene.keys.private, "/permissions");
    }
    scene.get(HERE, "no such key", "/permissions").is(401);
    let limiter = &scene.server.app.limiter;
    let of = |row: Row| {
        let all = limiter.decisions();
        let found = all.iter().find(|it| it.row == row).unwrap();
        (found.allowed, found.refused)
    };
    assert_eq!(of(Row::TestTenant), (50, 3));
    assert_eq!(of(Row::PrivateApplication), (50, 0));
    assert_eq!(of(Row::Address), (51, 0));
    assert_eq!(of(Row::LegacyKey), (0, 0));
    assert_eq!(limiter.shared_counters_failed(), None);
    assert_eq!(limiter.fullness().counters, 4);
}
