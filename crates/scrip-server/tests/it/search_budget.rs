//! The search budget: `data:` searches without a reveal right that find nothing.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    caller::Mandate,
    operations::update_tenant::set_tenant_quotas,
    permission::{
        ApplicationKind::Private,
        Permission::{TokenRead, TokenSearch},
    },
    quota::{Limit, Quotas},
    tenant::{Settings, TenantKind},
};
use serde_json::json;

use crate::{
    guessing_budget::lookalikes,
    server::{Keys, Reply, Server},
};

struct Scene {
    server: Server,
    keys: Keys,
    masked: String,
}

impl Scene {
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
fn misses_of_digits_with_the_same_last_four_are_limited() {
    // Nine digits would count in the guessing budget too.
    let scene = Scene::new(TenantKind::Production, |it| it);
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
fn searches_with_a_result_are_not_counted_as_misses() {
    let scene =
        Scene::new(TenantKind::Production, |it| Quotas { search_misses: Limit::Count(1), ..it });
    for _ in 0..100 {
        assert_eq!(
            scene.search(&scene.masked, "6789").is(200)["data"].as_array().unwrap().len(),
            1
        );
    }
}

#[test]
fn misses_of_short_texts_are_limited_for_each_application() {
    let scene =
        Scene::new(TenantKind::Production, |it| Quotas { search_misses: Limit::Count(1), ..it });
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
    let scene = Scene::new(TenantKind::Production, |it| Quotas { search_misses: Limit::Off, ..it });
    let numbers = lookalikes("411111", 21);
    for number in &numbers[..20] {
        assert_eq!(scene.search(&scene.masked, number).status, 200);
    }
    check_spent(&scene.search(&scene.masked, &numbers[20]));
    check_spent(&scene.search(&scene.masked, &numbers[0]));
}

#[test]
fn searches_in_test_tenants_are_not_limited() {
    let scene = Scene::new(TenantKind::Test, |it| it);
    for it in 0..30 {
        assert_eq!(scene.search(&scene.masked, &format!("{it:05}6789")).status, 200);
    }
}
