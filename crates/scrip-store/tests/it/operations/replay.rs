//! Replay of a stored response, limited to the data that the caller may see now.

use std::{collections::BTreeMap, sync::Arc};

use scrip_core::{
    Error,
    idempotency::{
        IdempotencyClaim, RenderedResponse, Replay, ReplayedToken, ResponseRecorder,
        response::{TokenSpan, replay::ReplayVisibility},
    },
    operations::{
        claim_idempotency_key::{ClaimDecision, RESPONSE_RETENTION, claim_idempotency_key},
        tokens::{
            create_token::create_token, delete_token::delete_token, update_token::update_token,
        },
    },
    policy::{Caller, DeduplicationBehavior, Tenant, TenantSettings},
    token::{NewToken, WrittenToken},
    types::{Operation, Permission, Transform, error::Denial},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
    requests::{
        CREATE_REQUEST, DEBIT, VISA, card, card_with_cvc, create, data_patch, expect_denial, get,
        visible_cvc, visible_data,
    },
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    replay_equals_the_first_response_without_the_cvc
    replay_shows_the_weaker_of_the_original_and_current_transform
    replay_is_denied_after_losing_the_permission
    replay_of_a_duplicate_is_denied_after_losing_read_permission
    replay_after_token_deletion_has_no_token_data
    update_is_replayed
    create_that_updates_a_duplicate_is_replayed
    failed_request_is_not_stored_for_replay
    idempotency_keys_are_separate_per_application
    stored_response_expires_after_its_retention
}

const KEY: &[u8] = b"order-7";

fn render(written: &WrittenToken) -> RenderedResponse {
    let outcome = written.deduplicated.map_or("new", DeduplicationBehavior::as_str);
    RenderedResponse::for_token(201, format!("{} {outcome}", written.token.id.as_str()))
}

async fn claim_key(harness: &VaultHarness, caller: &Caller) -> IdempotencyClaim {
    match claim_idempotency_key(&harness.vault, caller, Operation::CreateToken, KEY, CREATE_REQUEST)
        .await
        .unwrap()
    {
        ClaimDecision::Proceed(claim) => claim,
        ClaimDecision::Replay(replay) => panic!("a response is already stored: {replay:?}"),
    }
}

async fn expect_replay(harness: &VaultHarness, caller: &Caller) -> Result<Replay, Error> {
    match claim_idempotency_key(&harness.vault, caller, Operation::CreateToken, KEY, CREATE_REQUEST)
        .await?
    {
        ClaimDecision::Replay(replay) => Ok(replay),
        ClaimDecision::Proceed(_) => panic!("no response is stored"),
    }
}

async fn create_with_key(
    harness: &VaultHarness,
    caller: &Caller,
    token: NewToken,
) -> Result<WrittenToken, Error> {
    let claim = claim_key(harness, caller).await;
    create_token(&harness.vault, caller, token, Some(ResponseRecorder::new(claim, render))).await
}

fn replayed_data(replay: &Replay) -> Option<Value> {
    let [ReplayedToken { span, visibility: ReplayVisibility::Full(data) }] =
        replay.tokens.as_slice()
    else {
        panic!("{:?}", replay.tokens)
    };
    assert_eq!(*span, TokenSpan { write_index: 0, start: 0, end: replay.body.len() });
    data.as_ref().map(|it| it.expose().clone())
}

async fn create_tenant_with_caller(
    harness: &VaultHarness,
    settings: TenantSettings,
) -> (Arc<Tenant>, Caller) {
    let tenant = harness.tenant(settings).await;
    let caller = harness.revealing_caller(&tenant, TOKENS).await;
    (tenant, caller)
}

async fn replay_equals_the_first_response_without_the_cvc(harness: VaultHarness) {
    let (_, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let claim = claim_key(&harness, &caller).await;
    let outcome =
        claim_idempotency_key(&harness.vault, &caller, Operation::CreateToken, KEY, CREATE_REQUEST)
            .await;
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    drop(claim);

    let first = create_with_key(&harness, &caller, card_with_cvc(VISA, "987")).await.unwrap();
    assert_eq!(visible_cvc(&first.token).as_deref(), Some("987"));
    for _ in 0..2 {
        let replay = expect_replay(&harness, &caller).await.unwrap();
        assert_eq!((replay.status, &replay.body), (201, &render(&first).body));
        assert_eq!(replayed_data(&replay), Some(json!({"number": VISA})));
    }
}

async fn replay_shows_the_weaker_of_the_original_and_current_transform(harness: VaultHarness) {
    use Transform::{Mask, Redact, Reveal};
    let tenant = harness.default_tenant().await;
    let revealed = Some(json!({"number": VISA}));
    let masked = Some(json!({"number": "XXXXXXXXXXXX4242"}));
    for (original, current, expected) in [
        (Reveal, Reveal, &revealed),
        (Reveal, Mask, &masked),
        (Reveal, Redact, &None),
        (Mask, Reveal, &masked),
        (Mask, Mask, &masked),
        (Mask, Redact, &None),
        (Redact, Reveal, &None),
    ] {
        let original_caller =
            harness.caller(&tenant, access_with_rules([access_rule("/", original, TOKENS)])).await;
        create_with_key(&harness, &original_caller, card(VISA)).await.unwrap();
        let rules = access_with_rules([access_rule("/", current, TOKENS)]);
        let current_caller =
            harness.caller_with_access(&tenant, original_caller.application(), rules);
        let replay = expect_replay(&harness, &current_caller).await.unwrap();
        assert_eq!(replayed_data(&replay), *expected, "original {original:?}, current {current:?}");
    }
}

async fn replay_is_denied_after_losing_the_permission(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    let other_permissions = [Permission::TokenRead, Permission::TokenUpdate];
    for access in [
        access_without_rules(&other_permissions),
        access_with_rules([access_rule("/elsewhere/", Transform::Reveal, TOKENS)]),
    ] {
        let changed_caller = harness.caller_with_access(&tenant, caller.application(), access);
        let expected = Denial::NoRule(Permission::TokenCreate);
        assert_eq!(expect_denial(expect_replay(&harness, &changed_caller).await), expected);
    }
}

/// The response contained a duplicate because of the read permission, not the create permission.
async fn replay_of_a_duplicate_is_denied_after_losing_read_permission(harness: VaultHarness) {
    let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
    let (tenant, caller) = create_tenant_with_caller(&harness, settings).await;
    create(&harness.vault, &caller, card(VISA)).await.unwrap();
    let duplicate = create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    assert!(duplicate.deduplicated.is_some() && visible_data(&duplicate.token).is_some());

    let access =
        access_with_rules([access_rule("/", Transform::Reveal, &[Permission::TokenCreate])]);
    let without_read = harness.caller_with_access(&tenant, caller.application(), access);
    let expected = Denial::NoRule(Permission::TokenRead);
    assert_eq!(expect_denial(expect_replay(&harness, &without_read).await), expected);
    let access = access_with_rules([
        access_rule("/", Transform::Mask, &[Permission::TokenRead]),
        access_rule("/", Transform::Reveal, TOKENS),
    ]);
    let with_mask = harness.caller_with_access(&tenant, caller.application(), access);
    let replay = expect_replay(&harness, &with_mask).await.unwrap();
    assert_eq!(replayed_data(&replay), Some(json!({"number": "XXXXXXXXXXXX4242"})));
    assert!(replayed_data(&expect_replay(&harness, &caller).await.unwrap()).is_some());
}

async fn replay_after_token_deletion_has_no_token_data(harness: VaultHarness) {
    let (_, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let first = create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    delete_token(&harness.vault, &caller, &first.token.id).await.unwrap();
    let replay = expect_replay(&harness, &caller).await.unwrap();
    assert_eq!((replay.status, &replay.body), (201, &render(&first).body));
    assert_eq!(replayed_data(&replay), None);
}

async fn update_is_replayed(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let id = create(&harness.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap().token.id;
    let recorder = ResponseRecorder::new(claim_key(&harness, &caller).await, render);
    let patch = data_patch(json!({"number": DEBIT, "cvc": "987"}));
    let first = update_token(&harness.vault, &caller, &id, patch, Some(recorder)).await.unwrap();
    assert_eq!(visible_cvc(&first.token).as_deref(), Some("987"));

    let replay = expect_replay(&harness, &caller).await.unwrap();
    assert_eq!((replay.status, &replay.body), (201, &render(&first).body));
    assert_eq!(replayed_data(&replay), Some(json!({"number": DEBIT})));
    let access = access_without_rules(&[Permission::TokenCreate, Permission::TokenRead]);
    let without_update = harness.caller_with_access(&tenant, caller.application(), access);
    let expected = Denial::NoRule(Permission::TokenUpdate);
    assert_eq!(expect_denial(expect_replay(&harness, &without_update).await), expected);
}

async fn create_that_updates_a_duplicate_is_replayed(harness: VaultHarness) {
    let settings = TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    };
    let (_, caller) = create_tenant_with_caller(&harness, settings).await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let metadata = BTreeMap::from([("note".to_owned(), "second".to_owned())]);
    let token = NewToken { metadata: Some(metadata), ..card(VISA) };
    let first = create_with_key(&harness, &caller, token).await.unwrap();
    assert_eq!(first.deduplicated, Some(DeduplicationBehavior::UpdateExisting));

    let replay = expect_replay(&harness, &caller).await.unwrap();
    assert_eq!(replay.body, format!("{} update_existing", id.as_str()));
    let stored = get(&harness.vault, &caller, &id).await;
    assert_eq!(stored.detail.unwrap().metadata.unwrap()["note"], "second");
}

async fn failed_request_is_not_stored_for_replay(harness: VaultHarness) {
    let (_, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let card_with_id = || NewToken { id: Some("mine".to_owned()), ..card(VISA) };
    create(&harness.vault, &caller, card_with_id()).await.unwrap();
    let conflict = create_with_key(&harness, &caller, card_with_id()).await;
    assert!(matches!(conflict, Err(Error::Conflict { .. })), "{conflict:?}");
    let invalid = create_with_key(&harness, &caller, card("4242424242424241")).await;
    assert!(matches!(invalid, Err(Error::Invalid(_))), "{invalid:?}");
    // The client may correct its request and send it with the same key.
    create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    assert_eq!(expect_replay(&harness, &caller).await.unwrap().status, 201);
}

async fn idempotency_keys_are_separate_per_application(harness: VaultHarness) {
    let (tenant, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let other_caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let first = create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    let second = create_with_key(&harness, &other_caller, card(VISA)).await.unwrap();
    assert_ne!(first.token.id, second.token.id);
    assert_eq!(expect_replay(&harness, &caller).await.unwrap().body, render(&first).body);
    assert_eq!(expect_replay(&harness, &other_caller).await.unwrap().body, render(&second).body);
}

async fn stored_response_expires_after_its_retention(harness: VaultHarness) {
    let (_, caller) = create_tenant_with_caller(&harness, TenantSettings::default()).await;
    let first = create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    harness.clock.advance(RESPONSE_RETENTION);
    let second = create_with_key(&harness, &caller, card(VISA)).await.unwrap();
    assert_ne!(first.token.id, second.token.id);
    assert_eq!(expect_replay(&harness, &caller).await.unwrap().body, render(&second).body);
}
