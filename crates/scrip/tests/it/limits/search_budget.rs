//! The search budget: `data:` searches of callers without a reveal right on all containers.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{PolicyPermit, Quotas, TenantSettings, tenant::quota::QuotaLimit},
    types::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenRead, TokenSearch},
        TenantKind,
    },
};
use serde_json::json;

use crate::{
    harness::server::{TenantApiKeys, TestResponse, TestServer},
    limits::guessing_budget_harness::lookalikes,
};

struct SearchBudgetHarness {
    server: TestServer,
    keys: TenantApiKeys,
    masked: String,
}

impl SearchBudgetHarness {
    fn new(kind: TenantKind, edit_quotas: fn(Quotas) -> Quotas) -> Self {
        let server = TestServer::start();
        let keys = server.create_tenant_of_kind(kind, TenantSettings::default());
        let permit = PolicyPermit::for_operator(Arc::clone(&keys.tenant));
        server.runtime.block_on(async {
            set_tenant_quotas(&server.app.vault, permit, Box::new(edit_quotas)).await.unwrap();
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
fn expect_budget_exhausted(response: &TestResponse) {
    assert_eq!(response.status, 429, "{}", response.text);
    for header in [
        "retry-after",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-ratelimit-reset",
    ] {
        let has_header = response.headers.contains_key(header);
        assert!(!has_header, "the official clients would wait for {header}");
    }
}

#[test]
fn searches_for_digits_with_the_same_last_four_are_limited() {
    // Use fewer than nine digits: nine digits would also count in the guessing budget.
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| it);
    for it in 0..20 {
        let response = harness.search(&harness.masked, &format!("1{it:02}-6789"));
        assert_eq!(response.expect_status(200)["data"], json!([]));
        // The same digits are the same term. The twentieth term exhausts the budget.
        let repeated_response = harness.search(&harness.masked, &format!("1{it:02}6789"));
        assert_eq!(repeated_response.status == 200, it < 19, "{}", repeated_response.text);
    }
    let query = json!({"query": "data:1216789"});
    expect_budget_exhausted(&harness.server.post(&harness.masked, "/tokens/search", &query));
    expect_budget_exhausted(&harness.search(&harness.masked, "1216789"));
    expect_budget_exhausted(&harness.search(&harness.masked, "100-6789"));
    expect_budget_exhausted(&harness.search(&harness.masked, "999-88-6789"));
    let other_term = harness.search(&harness.masked, "1216788").status;
    assert_eq!(other_term, 200, "a term with another last four was limited");
    let by_revealing = harness.search(&harness.keys.private, "1216789").status;
    assert_eq!(by_revealing, 200, "a caller with a reveal right was limited");
    harness.server.clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(harness.search(&harness.masked, "1216789").status, 200);
}

/// The value of an index may have other characters than digits.
#[test]
fn searches_for_nine_digits_behind_other_text_are_limited() {
    for prefix in ["ssn:", "S=", "2 "] {
        let harness = SearchBudgetHarness::new(TenantKind::Production, |it| it);
        for it in 0..21 {
            let term = format!("{prefix}4{it:02}-{:02}-6789", 10 + it);
            let expected = if it < 20 { 200 } else { 429 };
            let response = harness.search(&harness.masked, &term);
            assert_eq!(response.status, expected, "{prefix}, search {it}: {}", response.text);
        }
    }
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

/// Creates the key of a caller without a reveal right that can plant the terms that it searches for
/// later.
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
        let search_result = harness.search(&key, term).expect_status(200);
        let found = search_result["data"].as_array().unwrap().len();
        assert_eq!(found, 1, "the search did not find the planted token");
    }
    expect_budget_exhausted(&harness.search(&key, &terms[20]));
}

#[test]
fn searches_that_find_a_default_index_are_limited() {
    // The default indexes of a type are trusted, but the attacker wrote the data.
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
        let search_result = harness.search(&key, &format!("{it:04}")).expect_status(200);
        assert_eq!(search_result["data"].as_array().unwrap().len(), 1);
    }
    expect_budget_exhausted(&harness.search(&key, "0050"));
}

#[test]
fn searches_for_digits_with_any_last_four_count_for_the_application() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(1),
        ..it
    });
    // An index over the middle digits of a card puts every guess into a separate group.
    for it in 0..49 {
        assert_eq!(harness.search(&harness.masked, &format!("22{it:04}")).status, 200);
    }
    let status = harness.search(&harness.masked, "text").status;
    assert_eq!(status, 200, "the text was limited before the budget was exhausted");
    expect_budget_exhausted(&harness.search(&harness.masked, "220050"));
    expect_budget_exhausted(&harness.search(&harness.masked, "411111220050"));
    let other_key =
        harness.server.key_with_permissions(&harness.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(harness.search(&other_key, "220050").status, 200);
}

#[test]
fn searches_for_short_texts_are_limited_for_each_application() {
    let harness = SearchBudgetHarness::new(TenantKind::Production, |it| Quotas {
        search_misses: QuotaLimit::Count(1),
        ..it
    });
    for it in 0..50 {
        assert_eq!(harness.search(&harness.masked, &format!("{it:04}")).status, 200);
    }
    expect_budget_exhausted(&harness.search(&harness.masked, "x"));
    expect_budget_exhausted(&harness.search(&harness.masked, "0000"));
    let status = harness.search(&harness.masked, "a longer text").status;
    assert_eq!(status, 200, "a long text was counted");
    let other_key =
        harness.server.key_with_permissions(&harness.keys.tenant, Private, &[TokenSearch]);
    assert_eq!(harness.search(&other_key, "x").status, 200);
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
