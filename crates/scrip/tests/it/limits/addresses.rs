//! Whose address counts, and that nobody can choose it.

use scrip_api::{limiter::Limiter, middleware::client_address::TrustedProxies};
use scrip_core::policy::{
    TenantKind,
    rate_limit::{Figures, Row},
};

use crate::{
    limits::harness::{LimitsHarness, requests},
    sessions_3ds::requests::is_refused_page,
};

const WRONG: &str = "no such key";

#[test]
fn from_outside_the_header_changes_nothing() {
    let scene = LimitsHarness::with(TenantKind::Production, |app| {
        app.limiter = Limiter::new(requests(3), 1000);
        app.proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
    });
    for it in 0..3 {
        scene.get(&format!("203.0.113.{it}"), WRONG, "/permissions").is(401);
    }
    scene.get("203.0.113.9", WRONG, "/permissions").refused(429, "address");
    scene.get("10.0.0.1", WRONG, "/permissions").refused(429, "address");
    let named = scene.server.ask("GET", "/permissions").key(WRONG).send();
    named.refused(429, "address");
}

#[test]
fn behind_a_proxy_every_client_counts_for_itself() {
    let scene = LimitsHarness::new(TenantKind::Production, requests(2));
    let get = |from: &str| scene.get(from, WRONG, "/permissions");
    (0..2).for_each(|_| drop(get("203.0.113.1").is(401)));
    get("203.0.113.1").refused(429, "address");
    // What a client wrote itself stands further left.
    get("198.51.100.7, 203.0.113.1").refused(429, "address");
    get("::ffff:203.0.113.1").refused(429, "address");
    get("203.0.113.2").is(401);
    // One /64 is one client.
    get("2001:db8:1:1::1").is(401);
    get("2001:db8:1:1:ffff::2").is(401);
    get("2001:db8:1:1:abcd::3").refused(429, "address");
    get("2001:db8:1:2::1").is(401);
    // What cannot be read is the proxy itself.
    (0..2).for_each(|_| drop(get("203.0.113.8, nonsense").is(401)));
    get("203.0.113.9, nonsense").refused(429, "address");
    get("203.0.113.9").is(401);
}

/// The address that is counted is the one that is written down; whole, not its network.
#[test]
fn the_record_has_the_clients_address() {
    let scene = LimitsHarness::new(TenantKind::Production, Figures::default());
    for from in ["203.0.113.77", "2001:db8:1:1::77", "::ffff:203.0.113.78"] {
        let body = crate::harness::server::card(&crate::harness::server::new_number());
        scene.ask(from, "POST", "/tokens").key(&scene.keys.private).json(&body).send().is(201);
    }
    let sql = "SELECT address FROM audit WHERE operation = 'create_token' ORDER BY n";
    let found = scene.server.engine.select(sql).concat();
    assert_eq!(found, ["203.0.113.77", "2001:db8:1:1::77", "203.0.113.78"]);
}

/// Before anything is read or looked up, and in the language of who posts: a page, or a problem.
#[test]
fn what_needs_no_key_counts_on_the_address() {
    let scene = LimitsHarness::new(TenantKind::Test, requests(3));
    let session = "/3ds/sessions/8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
    let post = |path: &str, form: &str, body: &str| {
        scene.ask("203.0.113.1", "POST", &format!("{session}{path}")).text(form, body).send()
    };
    let form = "application/x-www-form-urlencoded";
    is_refused_page(&post("/method-notification", form, "threeDSMethodData=e30"), 400);
    is_refused_page(&post("/challenge-notification", form, "cres=e30"), 400);
    post("/results/secret", "application/json", "{}").is(200);
    for path in ["/method-notification", "/challenge-notification"] {
        let refused = post(path, form, "");
        is_refused_page(&refused, 429);
        assert!(refused.headers.contains_key("retry-after"));
    }
    post("/results/secret", "application/json", "{}").refused(429, "address");
}

/// A client that went over at one row is not held against another at the same address.
#[test]
fn strangers_count_on_the_address_alone() {
    let scene = LimitsHarness::new(TenantKind::Test, Figures::default());
    let here = "198.51.100.1";
    for _ in 0..100 {
        scene.get(here, WRONG, "/permissions").is(401);
    }
    for _ in 0..50 {
        scene.get(here, &scene.keys.private, "/permissions").is(200);
    }
    scene.get(here, &scene.keys.private, "/permissions").refused(429, "test_tenant");
    let address = scene.server.app.limiter.decisions();
    let address = address.iter().find(|it| it.row == Row::Address).unwrap();
    assert_eq!(address.allowed, 150);
}
