//! Deduplication as a client meets it: the tenant's settings, the request's, and the caller's rights.

use std::collections::BTreeMap;

use scrip_core::{
    policy::{
        DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
        Permission, TenantSettings, Transform,
    },
    token::{NewToken, TokenPatch},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
    requests::{
        DEBIT, VISA, card, card_with_cvc, create, data_patch, get, update, visible_cvc,
        visible_data,
    },
    vault_harness::{VaultHarness, containers},
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    deduplication_in_the_request_overrides_the_tenant_setting
    caller_with_update_permission_updates_the_existing_token
    caller_without_update_permission_reads_the_existing_token
    tokens_without_fingerprints_are_never_duplicates
    caller_without_read_permission_gets_only_the_id_of_a_duplicate
    duplicate_is_shown_with_the_weaker_transform
    update_can_be_deduplicated
}

fn deduplicating(token_deduplication_behavior: DeduplicationBehavior) -> TenantSettings {
    TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    }
}

fn with_note(new: NewToken, text: &str) -> NewToken {
    let metadata = BTreeMap::from([("note".to_owned(), text.to_owned())]);
    NewToken { metadata: Some(metadata), ..new }
}

async fn deduplication_in_the_request_overrides_the_tenant_setting(harness: VaultHarness) {
    for (tenants, requests, expected) in [
        (false, None, None),
        (true, None, Some(ReadExisting)),
        (false, Some(true), Some(ReadExisting)),
        (true, Some(false), None),
    ] {
        let settings = TenantSettings { deduplicate_tokens: tenants, ..TenantSettings::default() };
        let tenant = harness.tenant(settings).await;
        let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
        let first = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        let again = NewToken { deduplicate: requests, ..card(VISA) };
        let second = create(&harness.vault, &caller, again).await.unwrap();
        assert_eq!(first.deduplicated, None);
        assert_eq!(second.deduplicated, expected, "{tenants} {requests:?}");
        assert_eq!(second.token.id == first.token.id, expected.is_some());
        assert_eq!(second.token.fingerprint, first.token.fingerprint);

        let elsewhere = NewToken { containers: Some(containers(&["/pci/low/"])), ..card(VISA) };
        let third = create(&harness.vault, &caller, elsewhere).await.unwrap();
        assert_eq!(third.deduplicated, None);
        let other = create(&harness.vault, &caller, card(DEBIT)).await.unwrap();
        assert_eq!(other.deduplicated, None);
    }
}

async fn caller_with_update_permission_updates_the_existing_token(harness: VaultHarness) {
    let tenant = harness.tenant(deduplicating(UpdateExisting)).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let first = with_note(card_with_cvc(VISA, "123"), "first");
    let first = create(&harness.vault, &caller, first).await.unwrap();

    let second = with_note(card_with_cvc(VISA, "456"), "second");
    let second = create(&harness.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(UpdateExisting));
    assert_eq!(second.token.id, first.token.id);
    let found = get(&harness.vault, &caller, &first.token.id).await;
    assert_eq!(found.detail.as_ref().unwrap().metadata.as_ref().unwrap()["note"], "second");
    assert_eq!(visible_cvc(&found).as_deref(), Some("456"));
    assert_eq!(visible_data(&found), Some(json!({"number": VISA})));
}

async fn caller_without_update_permission_reads_the_existing_token(harness: VaultHarness) {
    let tenant = harness.tenant(deduplicating(UpdateExisting)).await;
    let all = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let may = [Permission::TokenCreate, Permission::TokenRead];
    // It may update elsewhere, which is not here.
    let rules = access_with_rules([
        access_rule("/elsewhere/", Transform::Reveal, &[Permission::TokenUpdate]),
        access_rule("/", Transform::Reveal, &may),
    ]);
    let caller = harness.caller(&tenant, rules).await;
    let first = with_note(card_with_cvc(VISA, "123"), "first");
    let first = create(&harness.vault, &all, first).await.unwrap();

    let second = with_note(card_with_cvc(VISA, "456"), "second");
    let second = create(&harness.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
    for view in [second.token, get(&harness.vault, &all, &first.token.id).await] {
        assert_eq!(visible_cvc(&view).as_deref(), Some("123"));
        assert_eq!(view.detail.unwrap().metadata.unwrap()["note"], "first");
    }
}

async fn tokens_without_fingerprints_are_never_duplicates(harness: VaultHarness) {
    let settings = TenantSettings { fingerprint_tokens: false, ..deduplicating(ReadExisting) };
    let tenant = harness.tenant(settings).await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    for _ in 0..2 {
        let written = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!((written.token.fingerprint, written.deduplicated), (None, None));
        assert_eq!(written.token.detail.unwrap().fingerprint_expression, None);
    }
    // An expression of one's own is a wish for a fingerprint.
    let own =
        || NewToken { fingerprint_expression: Some("{{ data.number }}".to_owned()), ..card(VISA) };
    let first = create(&harness.vault, &caller, own()).await.unwrap();
    let second = create(&harness.vault, &caller, own()).await.unwrap();
    assert!(first.token.fingerprint.is_some());
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
}

async fn caller_without_read_permission_gets_only_the_id_of_a_duplicate(harness: VaultHarness) {
    let tenant = harness.tenant(deduplicating(ReadExisting)).await;
    let all = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let public = harness.caller(&tenant, access_without_rules(&[Permission::TokenCreate])).await;
    let first = create(&harness.vault, &all, with_note(card(VISA), "hers")).await.unwrap();
    let second = create(&harness.vault, &public, card(VISA)).await.unwrap();
    assert_eq!(second.token.id, first.token.id);
    assert_eq!(second.token.fingerprint, first.token.fingerprint);
    assert!(second.token.detail.is_none());
    // What it made itself it knows.
    let own = create(&harness.vault, &public, card(DEBIT)).await.unwrap();
    assert_eq!(visible_data(&own.token), Some(json!({"number": "XXXXXXXXXXXX5556"})));
}

async fn duplicate_is_shown_with_the_weaker_transform(harness: VaultHarness) {
    use Transform::{Mask, Redact, Reveal};
    let tenant = harness.tenant(deduplicating(ReadExisting)).await;
    let all = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    create(&harness.vault, &all, card(VISA)).await.unwrap();
    let full = Some(json!({"number": VISA}));
    let masked = Some(json!({"number": "XXXXXXXXXXXX4242"}));
    for (to_create, to_read, expected) in [
        (Reveal, Reveal, &full),
        (Reveal, Mask, &masked),
        (Mask, Reveal, &masked),
        (Redact, Reveal, &None),
        (Reveal, Redact, &None),
    ] {
        let rules = access_with_rules([
            access_rule("/", to_create, &[Permission::TokenCreate]),
            access_rule("/", to_read, &[Permission::TokenRead]),
        ]);
        let caller = harness.caller(&tenant, rules).await;
        let found = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!(found.deduplicated, Some(ReadExisting));
        assert_eq!(visible_data(&found.token), *expected, "{to_create:?} {to_read:?}");
    }
}

async fn update_can_be_deduplicated(harness: VaultHarness) {
    let tenant = harness.tenant(deduplicating(ReadExisting)).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let first = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&harness.vault, &caller, card(DEBIT)).await.unwrap().token.id;

    let to_first = || data_patch(json!({"number": VISA}));
    let written = update(&harness.vault, &caller, &second, to_first()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (first, Some(ReadExisting)));
    let unchanged = get(&harness.vault, &caller, &second).await;
    assert_eq!(visible_data(&unchanged), Some(json!({"number": DEBIT})));

    let anyway = TokenPatch { deduplicate: Some(false), ..to_first() };
    let written = update(&harness.vault, &caller, &second, anyway).await.unwrap();
    assert_eq!((&written.token.id, written.deduplicated), (&second, None));
    // There are two of them now, and saying nothing new does not make it one.
    let written = update(&harness.vault, &caller, &second, TokenPatch::default()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (second, None));
}
