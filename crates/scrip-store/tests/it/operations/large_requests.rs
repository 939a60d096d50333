//! Patches of large tokens, comparisons of large proxied calls and searches of large texts for numbers run
//! outside of the async workers, and ordinary ones on them.

use scrip_core::{
    Error,
    card::TokenType,
    idempotency::{CallContent, CallDelivery},
    operations::{
        proxy_calls::claim_proxy_call::{CallClaim, CallRejection, claim_proxy_call},
        tokens::{create_token::create_token, update_token::update_token},
    },
    policy::{Caller, TenantSettings},
    token::TokenPatch,
    types::{Permission, TenantKind},
};
use scrip_testing::{
    policy::access_without_rules,
    requests::{create, data_patch, new_token, request_without_slots},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::{Value, json};

async fn open_vault() -> (VaultHarness, Caller) {
    let harness = VaultHarness::open(Engine::Memory).await;
    let (_, owner) = harness.tenant_with_default_caller().await;
    (harness, owner)
}

/// Patches a token with this data while no slot is free.
async fn patch_without_slots(data: &Value, patch: TokenPatch) -> Result<(), Error> {
    let (harness, owner) = open_vault().await;
    let token = new_token(TokenType::Token, data.clone());
    let id = create(&harness.vault, &owner, token).await.unwrap().token.id;
    let request = request_without_slots(&owner);
    update_token(&harness.vault, &request, &id, patch, None).await.map(drop)
}

fn metadata_patch() -> TokenPatch {
    TokenPatch { metadata: Some(json!({"a": "1"})), ..TokenPatch::default() }
}

#[tokio::test]
async fn patch_of_an_ordinary_token_needs_no_slot() {
    patch_without_slots(&json!({"a": "x".repeat(1000)}), metadata_patch()).await.unwrap();
    patch_without_slots(&json!({"a": 1}), data_patch(json!({"b": 2}))).await.unwrap();
}

#[tokio::test]
async fn patch_of_a_large_token_needs_a_slot() {
    let patched = patch_without_slots(&json!(vec![1; 90_000]), metadata_patch()).await;
    assert!(matches!(patched, Err(Error::Unavailable(_))), "{patched:?}");
}

#[tokio::test]
async fn large_patch_of_a_small_token_needs_a_slot() {
    let patch = data_patch(json!({"a": vec![1; 90_000]}));
    let patched = patch_without_slots(&json!({"b": 1}), patch).await;
    assert!(matches!(patched, Err(Error::Unavailable(_))), "{patched:?}");
}

/// Creates a token with this text while no slot is free, as a caller without a reveal right.
async fn create_without_slots(kind: TenantKind, text: String) -> Result<(), Error> {
    let harness = VaultHarness::open(Engine::Memory).await;
    let tenant = harness.tenant_of_kind(kind, TenantSettings::default()).await;
    let access = access_without_rules(&[Permission::TokenCreate]);
    let request = request_without_slots(&harness.caller(&tenant, access).await);
    let token = new_token(TokenType::Token, json!(text));
    create_token(&harness.vault, &request, token, None).await.map(drop)
}

#[tokio::test]
async fn search_of_a_large_text_for_numbers_needs_a_slot() {
    let large = || format!("1{}", " ".repeat(100_000));
    let counted = create_without_slots(TenantKind::Production, large()).await;
    assert!(matches!(counted, Err(Error::Unavailable(_))), "{counted:?}");
    create_without_slots(TenantKind::Production, "1".repeat(1_000)).await.unwrap();
    // Control: without budgets, the numbers of the same text are not counted.
    create_without_slots(TenantKind::Test, large()).await.unwrap();
}

/// Claims the key of a call with this many values in its body.
async fn claim(
    harness: &VaultHarness,
    caller: &Caller,
    values: usize,
) -> Result<CallClaim, CallRejection> {
    let body = json!(vec![0; values]).to_string();
    let content = CallContent {
        method: "POST",
        destination: "https://api.example.com",
        path_and_query: "/charge",
        body: body.as_bytes(),
        encrypted: None,
    };
    claim_proxy_call(&harness.vault, caller, b"order-7", content).await
}

#[tokio::test]
async fn comparison_of_an_ordinary_call_needs_no_slot() {
    let (harness, owner) = open_vault().await;
    claim(&harness, &request_without_slots(&owner), 1_000).await.unwrap();
}

#[tokio::test]
async fn comparison_of_a_large_call_needs_a_slot_and_its_rejection_leaves_the_key_free() {
    let (harness, owner) = open_vault().await;
    let rejected = claim(&harness, &request_without_slots(&owner), 500_000).await;
    let rejection = rejected.expect_err("no slot is free");
    assert!(matches!(rejection.error, Error::Unavailable(_)), "{rejection:?}");
    assert_eq!(rejection.delivery, CallDelivery::NotSent);
    let claimed = claim(&harness, &owner, 500_000).await;
    assert!(matches!(claimed, Ok(CallClaim::Proceed(_))), "{claimed:?}");
    assert!(owner.work().spent() > 1_000_000, "the comparison is charged");
}
