//! The bounds of lists by page number. The model has no such bounds.

use std::ops::Range;

use scrip_core::{
    audit::Operation,
    listing::{SURVEY_CONTAINERS_MAX, SurveyTokens, Surveyed},
    policy::Permission,
    token::{Batched, Deduplicate, InsertToken, TokenBatch, TokenRecord, TokenWrite},
};
use scrip_testing::{
    store_harness::{StoreHarness, bare, record},
    vault_harness::{Engine, containers},
};

/// Tokens in as many containers, in one batch.
async fn fill_containers(desk: &StoreHarness, numbers: Range<usize>) {
    let insert = |number: usize| {
        let containers = containers(&[&format!("/shop-{number}/")]);
        let token = record(&format!("token-{number}"));
        let token = bare(TokenRecord { containers, fingerprint: None, ..token });
        TokenWrite::Insert(InsertToken {
            permit: desk.permit(Permission::TokenCreate),
            token,
            intent: None,
            deduplicate: Deduplicate::No,
            audit: desk.audit(Operation::CreateToken),
        })
    };
    let batch = TokenBatch { writes: numbers.map(insert).collect(), render: None };
    let written = desk.store().write_tokens(desk.inquiry(), batch).await.unwrap();
    assert!(matches!(written, Batched::Written(_)), "{written:?}");
}

/// How many tokens a list by page number counts; nothing when it is refused.
async fn count(desk: &StoreHarness) -> Option<usize> {
    let spans = desk.caller.spans(Permission::TokenRead, None).unwrap();
    let survey = SurveyTokens { facets: Vec::new(), spans, now: desk.now() };
    let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
    match desk.store().survey_tokens(inquiry, survey).await.unwrap() {
        Surveyed::Found(found) => Some(found.len()),
        Surveyed::TooSpread => None,
    }
}

async fn check_bound_of_containers(engine: Engine) {
    let desk = StoreHarness::open(engine).await;
    fill_containers(&desk, 0..SURVEY_CONTAINERS_MAX).await;
    assert_eq!(count(&desk).await, Some(SURVEY_CONTAINERS_MAX));
    fill_containers(&desk, SURVEY_CONTAINERS_MAX..SURVEY_CONTAINERS_MAX + 1).await;
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
