//! The search budget: `data:` searches of callers that do not see everything in clear.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenRead, TokenSearch},
        PolicyPermit, Quotas, TenantKind, TenantSettings,
        tenant::quota::QuotaLimit,
    },
};
use serde_json::json;

use crate::{
    harness::server::{TenantApiKeys, TestResponse, TestServer},
    limits::guessing_budget::lookalikes,
};

struct SearchBudgetHarness {
    server: TestServer,
    keys: TenantApiKeys,
    masked: String,
}

impl SearchBudgetHarness {
    fn new(kind: TenantKind, edit: fn(Quotas) -> Quotas) -> Self {
        let server = TestServer::start();
        let keys = server.create_tenant_of_kind(kind, TenantSettings::default());
        let permit = PolicyPermit::for_operator(Arc::clone(&keys.tenant));
        server.runtime.block_on(async {
            set_tenant_quotas(&server.app.vault, permit, Box::new(edit)).await.unwrap();
            server.app.reload().await.unwrap();
        });
        let masked = server.key_with_permissions(&keys.tenant, Private, &[TokenSearch, TokenRead]);
        let body = json!({"type": "social_security_number", "data": "999-88-6789"});
        server.create_token_ok(&keys.private, &body);
        Self { server, keys, masked }
    }

    fn search(&self, key: &str, term: &str) -> TestResponse {
        let query = json!({"query": format!("data:\"{term}\"")});
        self.server.post(key, "/v2/tokens/search", &query)
    }
}

#[track_caller]
fn expect_budget_exhausted(reply: &TestResponse) {
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
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| it);
    for it in 0..20 {
        let reply = harness.search(&harness.masked, &format!("1{it:02}-6789"));
        assert_eq!(reply.expect_status(200)["data"], json!([]));
        // The same digits are the same term; the twentieth spends the budget.
        let repeat = harness.search(&harness.masked, &format!("1{it:02}6789"));
        assert_eq!(repeat.status == 200, it < 19, "{}", repeat.text);
    }
    let query = json!({"query": "data:1216789"});
    expect_budget_exhausted(&harness.server.post(&harness.masked, "/tokens/search", &query));
    expect_budget_exhausted(&harness.search(&harness.masked, "1216789"));
    expect_budget_exhausted(&harness.search(&harness.masked, "100-6789"));
    expect_budget_exhausted(&harness.search(&harness.masked, "999-88-6789"));
    assert_eq!(harness.search(&harness.masked, "1216788").status, 200, "another last four");
    assert_eq!(harness.search(&harness.keys.private, "1216789").status, 200, "a reveal right");
    harness.server.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(harness.search(&harness.masked, "1216789").status, 200);
}

#[test]
fn repeated_searches_of_one_term_count_once() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(2),
        ..it
    });
    for term in ["6789", "5556789", "none"] {
        for _ in 0..100 {
            assert_eq!(harness.search(&harness.masked, term).status, 200);
        }
    }
}

/// A caller without a reveal right that can plant the terms it is going to search for.
fn create_planting_key(harness: &SearchBudgetHarness) -> String {
    let permissions = [TokenCreate, TokenSearch];
    harness.server.key_with_permissions(&harness.keys.tenant, Private, &permissions)
}

#[test]
fn searches_that_find_a_planted_index_are_limited() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| it);
    let key = create_planting_key(&harness);
    let terms: Vec<_> = (10..31).map(|it| format!("{it}7788")).collect();
    for planted in terms.chunks(16) {
        let body = json!({"type": "token", "data": "x", "search_indexes": planted});
        harness.server.create_token_ok(&key, &body);
    }
    for term in &terms[..20] {
        let found = harness.search(&key, term).expect_status(200);
        assert_eq!(found["data"].as_array().unwrap().len(), 1, "the planted token is found");
    }
    expect_budget_exhausted(&harness.search(&key, &terms[20]));
}

#[test]
fn searches_that_find_a_default_index_are_limited() {
    // The type's own indexes are trusted, but the data under them is the planter's.
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(1),
        ..it
    });
    let key = create_planting_key(&harness);
    for it in 0..51 {
        let body = json!({"type": "social_security_number", "data": format!("12345{it:04}")});
        harness.server.create_token_ok(&key, &body);
    }
    for it in 0..50 {
        let found = harness.search(&key, &format!("{it:04}")).expect_status(200);
        assert_eq!(found["data"].as_array().unwrap().len(), 1);
    }
    expect_budget_exhausted(&harness.search(&key, "0050"));
}

#[test]
fn digit_terms_count_for_the_application_with_any_last_four() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(1),
        ..it
    });
    // An index over the middle digits of a card gives every guess a group of its own.
    for it in 0..49 {
        assert_eq!(harness.search(&harness.masked, &format!("22{it:04}")).status, 200);
    }
    assert_eq!(harness.search(&harness.masked, "text").status, 200, "shares the budget");
    expect_budget_exhausted(&harness.search(&harness.masked, "220050"));
    expect_budget_exhausted(&harness.search(&harness.masked, "411111220050"));
    let other = harness.server.key_with_permissions(&harness.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(harness.search(&other, "220050").status, 200);
}

#[test]
fn short_texts_are_limited_for_each_application() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(1),
        ..it
    });
    for it in 0..50 {
        assert_eq!(harness.search(&harness.masked, &format!("{it:04}")).status, 200);
    }
    expect_budget_exhausted(&harness.search(&harness.masked, "x"));
    expect_budget_exhausted(&harness.search(&harness.masked, "0000"));
    assert_eq!(harness.search(&harness.masked, "a longer text").status, 200, "is not counted");
    let other = harness.server.key_with_permissions(&harness.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(harness.search(&other, "x").status, 200);
}

#[test]
fn searched_card_numbers_count_in_the_guessing_budget() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Off,
        ..it
    });
    let numbers = lookalikes("411111", 21);
    for number in &numbers[..20] {
        assert_eq!(harness.search(&harness.masked, number).status, 200);
    }
    expect_budget_exhausted(&harness.search(&harness.masked, &numbers[20]));
    expect_budget_exhausted(&harness.search(&harness.masked, &numbers[0]));
}

#[test]
fn searches_in_test_tenants_are_not_limited() {
    let harness = SearchBudgetHarness::new(TenantKind::Test, |it| it);
    for it in 0..30 {
        assert_eq!(harness.search(&harness.masked, &format!("{it:05}6789")).status, 200);
    }
}
