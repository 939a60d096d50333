//! The bounds of lists by page number. The model has no such bounds.

use std::ops::Range;

use scrip_core::{
    audit::Operation,
    listing::{NEWEST_CONTAINERS_MAX, NewestTokens, NewestTokensScan},
    policy::Permission,
    token::{BatchOutcome, Deduplicate, InsertToken, TokenBatch, TokenRecord, TokenWrite},
};
use scrip_testing::{
    store_harness::{StoreHarness, token_record, without_cvc},
    vault_harness::{Engine, containers},
};

/// Tokens in as many containers, in one batch.
async fn fill_containers(desk: &StoreHarness, numbers: Range<usize>) {
    let insert = |number: usize| {
        let containers = containers(&[&format!("/shop-{number}/")]);
        let token = token_record(&format!("token-{number}"));
        let token = without_cvc(TokenRecord { containers, fingerprint: None, ..token });
        TokenWrite::Insert(InsertToken {
            permit: desk.permit(Permission::TokenCreate),
            token,
            intent: None,
            deduplicate: Deduplicate::No,
            audit: desk.audit(Operation::CreateToken),
        })
    };
    let batch = TokenBatch { writes: numbers.map(insert).collect(), build_record: None };
    let written = desk.store().write_tokens(desk.lookup_permit(), batch).await.unwrap();
    assert!(matches!(written, BatchOutcome::Written(_)), "{written:?}");
}

/// How many tokens a list by page number counts; nothing when it is refused.
async fn count(desk: &StoreHarness) -> Option<usize> {
    let spans = desk.caller.container_ranges(Permission::TokenRead, None).unwrap();
    let survey = NewestTokensScan { facets: Vec::new(), ranges: spans, now: desk.now() };
    let inquiry = desk.caller.permit_lookup(Permission::TokenRead).unwrap();
    match desk.store().find_newest_tokens(inquiry, survey).await.unwrap() {
        NewestTokens::Found(found) => Some(found.len()),
        NewestTokens::TooManyToScan => None,
    }
}

async fn check_bound_of_containers(engine: Engine) {
    let desk = StoreHarness::open(engine).await;
    fill_containers(&desk, 0..NEWEST_CONTAINERS_MAX).await;
    assert_eq!(count(&desk).await, Some(NEWEST_CONTAINERS_MAX));
    fill_containers(&desk, NEWEST_CONTAINERS_MAX..NEWEST_CONTAINERS_MAX + 1).await;
    assert_eq!(count(&desk).await, None);
}

#[tokio::test]
async fn sqlite_refuses_a_list_by_page_number_over_too_many_containers() {
    check_bound_of_containers(Engine::Sqlite).await;
}

#[tokio::test]
async fn postgres_refuses_a_list_by_page_number_over_too_many_containers() {
    check_bound_of_containers(Engine::Postgres).await;
}
