//! Limits of lists by page number. The in-memory model has no such limits.

use std::ops::Range;

use scrip_core::{
    disclosure::Deduplicate,
    listing::{NEWEST_CONTAINERS_MAX, NewestTokens, NewestTokensScan},
    token::TokenRecord,
    token_batch::{BatchOutcome, InsertToken, TokenBatch, TokenWrite},
    types::{Operation, Permission},
};
use scrip_testing::{
    store_harness::{StoreHarness, no_events, token_record, without_cvc},
    vault_harness::{Engine, containers},
};

/// Inserts one token per container, in one batch.
async fn fill_containers(harness: &StoreHarness, numbers: Range<usize>) {
    let build_insert = |number: usize| {
        let containers = containers(&[&format!("/shop-{number}/")]);
        let token = token_record(&format!("token-{number}"));
        let token = without_cvc(TokenRecord { containers, fingerprint: None, ..token });
        TokenWrite::Insert(InsertToken {
            permit: harness.permit(Permission::TokenCreate),
            token,
            intent: None,
            deduplicate: Deduplicate::No,
            audit: harness.audit(Operation::CreateToken),
            events: no_events(),
        })
    };
    let batch = TokenBatch { writes: numbers.map(build_insert).collect(), build_record: None };
    let outcome = harness.store().write_tokens(harness.lookup_permit(), batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Written(_)), "{outcome:?}");
}

/// Counts the tokens of a list by page number. Returns `None` if the list is rejected.
async fn count_listed(harness: &StoreHarness) -> Option<usize> {
    let ranges = harness.caller.container_ranges(Permission::TokenRead, None).unwrap();
    let scan = NewestTokensScan { facets: Vec::new(), ranges, now: harness.now() };
    let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
    match harness.store().find_newest_tokens(lookup, scan).await.unwrap() {
        NewestTokens::Found(tokens) => Some(tokens.len()),
        NewestTokens::TooManyToScan => None,
    }
}

async fn check_container_limit(engine: Engine) {
    let harness = StoreHarness::open(engine).await;
    fill_containers(&harness, 0..NEWEST_CONTAINERS_MAX).await;
    assert_eq!(count_listed(&harness).await, Some(NEWEST_CONTAINERS_MAX));
    fill_containers(&harness, NEWEST_CONTAINERS_MAX..NEWEST_CONTAINERS_MAX + 1).await;
    assert_eq!(count_listed(&harness).await, None);
}

#[tokio::test]
async fn sqlite_rejects_a_list_by_page_number_over_too_many_containers() {
    check_container_limit(Engine::Sqlite).await;
}

#[tokio::test]
async fn postgres_rejects_a_list_by_page_number_over_too_many_containers() {
    check_container_limit(Engine::Postgres).await;
}
