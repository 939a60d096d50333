//! Pages of large tokens are opened outside of the async workers, and pages of ordinary tokens on
//! them.

use scrip_core::{
    Error,
    card::TokenType,
    listing::PageRequest,
    operations::tokens::{
        ListTokensQuery, OffsetPageQuery, TokenFilter, list_tokens::list_tokens,
        list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
    },
    types::{Permission, Transform},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{create, new_token, request_without_slots},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::{Value, json};

/// Lists the tokens in three ways. Returns how many each one shows.
async fn count_listed(data: &Value, tokens: usize) -> [Result<usize, Error>; 3] {
    let harness = VaultHarness::open(Engine::Memory).await;
    let tenant = harness.default_tenant().await;
    let access = |transform, permissions: &[Permission]| {
        access_with_rules([access_rule("/", transform, permissions)])
    };
    let owner = harness.caller(&tenant, access(Transform::Reveal, TOKENS)).await;
    let readable = [Permission::TokenRead, Permission::TokenSearch];
    let reader = harness.caller(&tenant, access(Transform::Mask, &readable)).await;
    for _ in 0..tokens {
        let mut token = new_token(TokenType::Token, data.clone());
        token.metadata = Some([("customer".to_owned(), "x".repeat(500))].into());
        create(&harness.vault, &owner, token).await.unwrap();
    }
    let query =
        || ListTokensQuery { container: None, filter: TokenFilter::All, start: None, size: 100 };
    let (vault, request) = (&harness.vault, || request_without_slots(&reader));
    let by_number = OffsetPageQuery {
        page: PageRequest { number: 1, size: 100 },
        ..OffsetPageQuery::default()
    };
    [
        list_tokens(vault, &request(), query()).await.map(|it| it.tokens.len()),
        search_tokens(vault, &request(), query()).await.map(|it| it.tokens.len()),
        list_tokens_v1(vault, &request(), by_number).await.map(|it| it.items.len()),
    ]
}

#[tokio::test]
async fn page_of_ordinary_tokens_is_opened_without_a_slot() {
    for listed in count_listed(&json!("x".repeat(1000)), 100).await {
        assert_eq!(listed.unwrap(), 100);
    }
}

#[tokio::test]
async fn page_of_large_tokens_needs_a_slot() {
    for listed in count_listed(&json!(vec![1; 90_000]), 3).await {
        assert!(matches!(listed, Err(Error::Unavailable(_))), "{listed:?}");
    }
}
