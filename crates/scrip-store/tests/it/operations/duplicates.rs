//! Deduplication in operations: settings of the tenant, options of the request, and rights of the
//! caller.

use std::collections::BTreeMap;

use scrip_core::{
    policy::{
        DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
        TenantSettings,
    },
    token::{NewToken, TokenPatch},
    types::{Permission, Transform},
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
    duplicate_has_the_weaker_of_the_create_and_read_transforms
    update_can_be_deduplicated
}

fn settings_with_deduplication(
    token_deduplication_behavior: DeduplicationBehavior,
) -> TenantSettings {
    TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior,
        ..TenantSettings::default()
    }
}

fn with_note(token: NewToken, text: &str) -> NewToken {
    let metadata = BTreeMap::from([("note".to_owned(), text.to_owned())]);
    NewToken { metadata: Some(metadata), ..token }
}

async fn deduplication_in_the_request_overrides_the_tenant_setting(harness: VaultHarness) {
    for (tenant_setting, request_option, expected) in [
        (false, None, None),
        (true, None, Some(ReadExisting)),
        (false, Some(true), Some(ReadExisting)),
        (true, Some(false), None),
    ] {
        let settings =
            TenantSettings { deduplicate_tokens: tenant_setting, ..TenantSettings::default() };
        let tenant = harness.tenant(settings).await;
        let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
        let first = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        let repeated = NewToken { deduplicate: request_option, ..card(VISA) };
        let second = create(&harness.vault, &caller, repeated).await.unwrap();
        assert_eq!(first.deduplicated, None);
        assert_eq!(
            second.deduplicated, expected,
            "tenant {tenant_setting}, request {request_option:?}"
        );
        assert_eq!(second.token.id == first.token.id, expected.is_some());
        assert_eq!(second.token.fingerprint, first.token.fingerprint);

        let in_other_container =
            NewToken { containers: Some(containers(&["/pci/low/"])), ..card(VISA) };
        let third = create(&harness.vault, &caller, in_other_container).await.unwrap();
        assert_eq!(third.deduplicated, None);
        let other_card = create(&harness.vault, &caller, card(DEBIT)).await.unwrap();
        assert_eq!(other_card.deduplicated, None);
    }
}

async fn caller_with_update_permission_updates_the_existing_token(harness: VaultHarness) {
    let tenant = harness.tenant(settings_with_deduplication(UpdateExisting)).await;
    let caller = harness.revealing_caller(&tenant, TOKENS).await;
    let first = with_note(card_with_cvc(VISA, "123"), "first");
    let first = create(&harness.vault, &caller, first).await.unwrap();

    let second = with_note(card_with_cvc(VISA, "456"), "second");
    let second = create(&harness.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(UpdateExisting));
    assert_eq!(second.token.id, first.token.id);
    let stored = get(&harness.vault, &caller, &first.token.id).await;
    assert_eq!(stored.detail.as_ref().unwrap().metadata.as_ref().unwrap()["note"], "second");
    assert_eq!(visible_cvc(&stored).as_deref(), Some("456"));
    assert_eq!(visible_data(&stored), Some(json!({"number": VISA})));
}

async fn caller_without_update_permission_reads_the_existing_token(harness: VaultHarness) {
    let tenant = harness.tenant(settings_with_deduplication(UpdateExisting)).await;
    let owner = harness.revealing_caller(&tenant, TOKENS).await;
    let permissions = [Permission::TokenCreate, Permission::TokenRead];
    // The caller may update tokens in another container only.
    let rules = access_with_rules([
        access_rule("/elsewhere/", Transform::Reveal, &[Permission::TokenUpdate]),
        access_rule("/", Transform::Reveal, &permissions),
    ]);
    let caller = harness.caller(&tenant, rules).await;
    let first = with_note(card_with_cvc(VISA, "123"), "first");
    let first = create(&harness.vault, &owner, first).await.unwrap();

    let second = with_note(card_with_cvc(VISA, "456"), "second");
    let second = create(&harness.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
    for view in [second.token, get(&harness.vault, &owner, &first.token.id).await] {
        assert_eq!(visible_cvc(&view).as_deref(), Some("123"));
        assert_eq!(view.detail.unwrap().metadata.unwrap()["note"], "first");
    }
}

async fn tokens_without_fingerprints_are_never_duplicates(harness: VaultHarness) {
    let settings =
        TenantSettings { fingerprint_tokens: false, ..settings_with_deduplication(ReadExisting) };
    let tenant = harness.tenant(settings).await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    for _ in 0..2 {
        let written = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!((written.token.fingerprint, written.deduplicated), (None, None));
        assert_eq!(written.token.detail.unwrap().fingerprint_expression, None);
    }
    // An expression in the request also requests a fingerprint.
    let with_expression =
        || NewToken { fingerprint_expression: Some("{{ data.number }}".to_owned()), ..card(VISA) };
    let first = create(&harness.vault, &caller, with_expression()).await.unwrap();
    let second = create(&harness.vault, &caller, with_expression()).await.unwrap();
    assert!(first.token.fingerprint.is_some());
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
}

async fn caller_without_read_permission_gets_only_the_id_of_a_duplicate(harness: VaultHarness) {
    let tenant = harness.tenant(settings_with_deduplication(ReadExisting)).await;
    let owner = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let public = harness.caller(&tenant, access_without_rules(&[Permission::TokenCreate])).await;
    let first = create(&harness.vault, &owner, with_note(card(VISA), "hers")).await.unwrap();
    let second = create(&harness.vault, &public, card(VISA)).await.unwrap();
    assert_eq!(second.token.id, first.token.id);
    assert_eq!(second.token.fingerprint, first.token.fingerprint);
    assert!(second.token.detail.is_none());
    // The caller may see tokens that it created.
    let created = create(&harness.vault, &public, card(DEBIT)).await.unwrap();
    assert_eq!(visible_data(&created.token), Some(json!({"number": "XXXXXXXXXXXX5556"})));
}

async fn duplicate_has_the_weaker_of_the_create_and_read_transforms(harness: VaultHarness) {
    use Transform::{Mask, Redact, Reveal};
    let tenant = harness.tenant(settings_with_deduplication(ReadExisting)).await;
    let owner = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    create(&harness.vault, &owner, card(VISA)).await.unwrap();
    let revealed = Some(json!({"number": VISA}));
    let masked = Some(json!({"number": "XXXXXXXXXXXX4242"}));
    for (create_transform, read_transform, expected) in [
        (Reveal, Reveal, &revealed),
        (Reveal, Mask, &masked),
        (Mask, Reveal, &masked),
        (Redact, Reveal, &None),
        (Reveal, Redact, &None),
    ] {
        let rules = access_with_rules([
            access_rule("/", create_transform, &[Permission::TokenCreate]),
            access_rule("/", read_transform, &[Permission::TokenRead]),
        ]);
        let caller = harness.caller(&tenant, rules).await;
        let duplicate = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!(duplicate.deduplicated, Some(ReadExisting));
        assert_eq!(
            visible_data(&duplicate.token),
            *expected,
            "create {create_transform:?}, read {read_transform:?}"
        );
    }
}

async fn update_can_be_deduplicated(harness: VaultHarness) {
    let tenant = harness.tenant(settings_with_deduplication(ReadExisting)).await;
    let caller = harness.revealing_caller(&tenant, TOKENS).await;
    let first = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&harness.vault, &caller, card(DEBIT)).await.unwrap().token.id;

    let patch_to_first = || data_patch(json!({"number": VISA}));
    let written = update(&harness.vault, &caller, &second, patch_to_first()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (first, Some(ReadExisting)));
    let unchanged = get(&harness.vault, &caller, &second).await;
    assert_eq!(visible_data(&unchanged), Some(json!({"number": DEBIT})));

    let without_deduplication = TokenPatch { deduplicate: Some(false), ..patch_to_first() };
    let written = update(&harness.vault, &caller, &second, without_deduplication).await.unwrap();
    assert_eq!((&written.token.id, written.deduplicated), (&second, None));
    // There are two duplicates now, and an empty patch does not merge them.
    let written = update(&harness.vault, &caller, &second, TokenPatch::default()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (second, None));
}
