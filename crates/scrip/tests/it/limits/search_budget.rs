//! The search budget: `data:` searches of callers that do not see everything in clear.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{
        ApplicationKind::Private,
        Mandate,
        Permission::{TokenCreate, TokenRead, TokenSearch},
        Quotas, Settings, TenantKind,
        tenant::quota::Limit,
    },
};
use serde_json::json;

use crate::{
    harness::server::{Keys, Reply, Server},
    limits::guessing_budget::lookalikes,
};

struct LimitsHarness {
    server: Server,
    keys: Keys,
    masked: String,
}

impl LimitsHarness {
    fn new(kind: TenantKind, edit: fn(Quotas) -> Quotas) -> Self {
        let server = Server::start();
        let keys = server.tenant_of(kind, Settings::default());
        let mandate = Mandate::of_operator(Arc::clone(&keys.tenant));
        server.runtime.block_on(async {
            set_tenant_quotas(&server.app.vault, mandate, Box::new(edit)).await.unwrap();
            server.app.reload().await.unwrap();
        });
        let masked = server.permissions(&keys.tenant, Private, &[TokenSearch, TokenRead]);
        let body = json!({"type": "social_security_number", "data": "999-88-6789"});
        server.created(&keys.private, &body);
        Self { server, keys, masked }
    }

    fn search(&self, key: &str, term: &str) -> Reply {
        let query = json!({"query": format!("data:\"{term}\"")});
        self.server.post(key, "/v2/tokens/search", &query)
    }
}

#[track_caller]
fn check_spent(reply: &Reply) {
    assert_eq!(reply.status, 429, "{}", reply.text);
    for header in [
        "retry-after",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-reset",
    ] {
        assert!(
            !reply.headers.contains_key(header),
            "the official clients would wait for {header}"
        );
    }
}

#[test]
fn terms_of_digits_with_the_same_last_four_are_limited() {
    // Nine digits would count in the guessing budget too.
    let scene = LimitsHarness::new(TenantKind::Production, |it| it);
    for it in 0..20 {
        let reply = scene.search(&scene.masked, &format!("1{it:02}-6789"));
        assert_eq!(reply.is(200)["data"], json!([]));
        // The same digits are the same term; the twentieth spends the budget.
        let repeat = scene.search(&scene.masked, &format!("1{it:02}6789"));
        assert_eq!(repeat.status == 200, it < 19, "{}", repeat.text);
    }
    let query = json!({"query": "data:1216789"});
    check_spent(&scene.server.post(&scene.masked, "/tokens/search", &query));
    check_spent(&scene.search(&scene.masked, "1216789"));
    check_spent(&scene.search(&scene.masked, "100-6789"));
    check_spent(&scene.search(&scene.masked, "999-88-6789"));
    assert_eq!(scene.search(&scene.masked, "1216788").status, 200, "another last four");
    assert_eq!(scene.search(&scene.keys.private, "1216789").status, 200, "a reveal right");
    scene.server.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(scene.search(&scene.masked, "1216789").status, 200);
}

#[test]
fn repeated_searches_of_one_term_count_once() {
    let scene = LimitsHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: Limit::Count(2),
        ..it
    });
    for term in ["6789", "5556789", "none"] {
        for _ in 0..100 {
            assert_eq!(scene.search(&scene.masked, term).status, 200);
        }
    }
}

/// A caller without a reveal right that can plant the terms it is going to search for.
fn planter(scene: &LimitsHarness) -> String {
    let permissions = [TokenCreate, TokenSearch];
    scene.server.permissions(&scene.keys.tenant, Private, &permissions)
}

#[test]
fn searches_that_find_a_planted_index_are_limited() {
    let scene = LimitsHarness::new(TenantKind::Production, |it| it);
    let key = planter(&scene);
    let terms: Vec<_> = (10..31).map(|it| format!("{it}7788")).collect();
    for planted in terms.chunks(16) {
        let body = json!({"type": "token", "data": "x", "search_indexes": planted});
        scene.server.created(&key, &body);
    }
    for term in &terms[..20] {
        let found = scene.search(&key, term).is(200);
        assert_eq!(found["data"].as_array().unwrap().len(), 1, "the planted token is found");
    }
    check_spent(&scene.search(&key, &terms[20]));
}

#[test]
fn searches_that_find_a_type_s_own_index_are_limited_too() {
    // The type's own indexes are trusted, but the data under them is the planter's.
    let scene = LimitsHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: Limit::Count(1),
        ..it
    });
    let key = planter(&scene);
    for it in 0..51 {
        let body = json!({"type": "social_security_number", "data": format!("12345{it:04}")});
        scene.server.created(&key, &body);
    }
    for it in 0..50 {
        let found = scene.search(&key, &format!("{it:04}")).is(200);
        assert_eq!(found["data"].as_array().unwrap().len(), 1);
    }
    check_spent(&scene.search(&key, "0050"));
}

#[test]
fn terms_of_digits_count_for_the_application_whatever_their_last_four() {
    let scene = LimitsHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: Limit::Count(1),
        ..it
    });
    // An index over the middle digits of a card gives every guess a group of its own.
    for it in 0..49 {
        assert_eq!(scene.search(&scene.masked, &format!("22{it:04}")).status, 200);
    }
    assert_eq!(scene.search(&scene.masked, "text").status, 200, "shares the budget");
    check_spent(&scene.search(&scene.masked, "220050"));
    check_spent(&scene.search(&scene.masked, "411111220050"));
    let other = scene.server.permissions(&scene.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(scene.search(&other, "220050").status, 200);
}

#[test]
fn short_texts_are_limited_for_each_application() {
    let scene = LimitsHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: Limit::Count(1),
        ..it
    });
    for it in 0..50 {
        assert_eq!(scene.search(&scene.masked, &format!("{it:04}")).status, 200);
    }
    check_spent(&scene.search(&scene.masked, "x"));
    check_spent(&scene.search(&scene.masked, "0000"));
    assert_eq!(scene.search(&scene.masked, "a longer text").status, 200, "is not counted");
    let other = scene.server.permissions(&scene.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(scene.search(&other, "x").status, 200);
}

#[test]
fn searched_card_numbers_count_in_the_guessing_budget() {
    let scene =
        LimitsHarness::new(TenantKind::Production, |it| Quotas { search_misses: Limit::Off, ..it });
    let numbers = lookalikes("411111", 21);
    for number in &numbers[..20] {
        assert_eq!(scene.search(&scene.masked, number).status, 200);
    }
    check_spent(&scene.search(&scene.masked, &numbers[20]));
    check_spent(&scene.search(&scene.masked, &numbers[0]));
}

#[test]
fn searches_in_test_tenants_are_not_limited() {
    let scene = LimitsHarness::new(TenantKind::Test, |it| it);
    for it in 0..30 {
        assert_eq!(scene.search(&scene.masked, &format!("{it:05}6789")).status, 200);
    }
}
