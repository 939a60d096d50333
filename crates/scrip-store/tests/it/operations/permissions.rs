//! Data that a caller can see, and changes that are denied because they would reveal more.

use scrip_core::{
    Error,
    operations::tokens::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
    },
    token::{NewToken, TokenPatch},
    types::{Permission, Transform, error::Denial},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
    requests::{DEBIT, VISA, card, create, data_patch, expect_denial, get, update, visible_data},
    vault_harness::{VaultHarness, containers, token_id},
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    access_rule_transform_decides_which_token_data_is_visible
    token_cannot_move_to_a_container_with_a_stronger_transform
    changing_an_expression_that_discloses_data_requires_reveal
    caller_with_reveal_may_change_expressions
    operation_without_its_permission_is_denied
    token_of_another_tenant_is_not_found
    taken_token_id_is_a_conflict
}

async fn access_rule_transform_decides_which_token_data_is_visible(harness: VaultHarness) {
    let (tenant, owner) = harness.tenant_with_default_caller().await;
    let id = create(&harness.vault, &owner, card(VISA)).await.unwrap().token.id;
    for (transform, expected) in [
        (Transform::Redact, None),
        (Transform::Mask, Some(json!({"number": "XXXXXXXXXXXX4242"}))),
        (Transform::Reveal, Some(json!({"number": VISA}))),
    ] {
        let caller = harness
            .caller(&tenant, access_with_rules([access_rule("/pci/", transform, TOKENS)]))
            .await;
        let read = get(&harness.vault, &caller, &id).await;
        assert_eq!(visible_data(&read), expected, "{transform:?}");
        let empty_patch = TokenPatch::default();
        let updated = update(&harness.vault, &caller, &id, empty_patch).await.unwrap();
        assert_eq!(visible_data(&updated.token), expected, "{transform:?}");
        let created = create(&harness.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!(visible_data(&created.token), expected, "{transform:?}");
    }
}

async fn token_cannot_move_to_a_container_with_a_stronger_transform(harness: VaultHarness) {
    let (tenant, owner) = harness.tenant_with_default_caller().await;
    let rules = access_with_rules([
        access_rule("/open/", Transform::Reveal, &[Permission::TokenRead]),
        access_rule("/closed/", Transform::Mask, &[Permission::TokenRead]),
        access_rule("/open/", Transform::Mask, &[Permission::TokenUpdate]),
        access_rule("/closed/", Transform::Mask, &[Permission::TokenUpdate]),
    ]);
    let caller = harness.caller(&tenant, rules).await;
    let moves: &[(&[&str], &[&str], Option<Denial>)] = &[
        (&["/closed/"], &["/open/"], Some(Denial::StrongerTransform)),
        (&["/closed/", "/open/"], &["/open/"], Some(Denial::StrongerTransform)),
        (&["/closed/"], &["/elsewhere/"], Some(Denial::NoRule(Permission::TokenUpdate))),
        (&["/elsewhere/"], &["/open/"], Some(Denial::NoRule(Permission::TokenUpdate))),
        (&["/open/"], &["/closed/"], None),
        (&["/closed/"], &["/closed/deeper/"], None),
        (&["/open/"], &["/open/", "/closed/"], None),
        (&["/closed/"], &["/closed/"], None),
    ];
    for (from, to, expected) in moves {
        let token = NewToken { containers: Some(containers(from)), ..card(VISA) };
        let id = create(&harness.vault, &owner, token).await.unwrap().token.id;
        let patch = TokenPatch { containers: Some(Some(containers(to))), ..TokenPatch::default() };
        let outcome = update(&harness.vault, &caller, &id, patch).await;
        match expected {
            Some(expected) => {
                assert_eq!(expect_denial(outcome), *expected, "{from:?}");
                assert_eq!(get(&harness.vault, &owner, &id).await.containers, containers(from));
            }
            None => drop(outcome.unwrap()),
        }
    }
}

fn mask_patch(value: Value) -> TokenPatch {
    TokenPatch { mask: Some(value), ..TokenPatch::default() }
}

fn fingerprint_patch(text: Option<&str>) -> TokenPatch {
    let fingerprint_expression = Some(text.map(str::to_owned));
    TokenPatch { fingerprint_expression, ..TokenPatch::default() }
}

fn indexes_patch(texts: Option<&[&str]>) -> TokenPatch {
    let texts = texts.map(|it| it.iter().map(|it| (*it).to_owned()).collect());
    TokenPatch { search_indexes: Some(texts), ..TokenPatch::default() }
}

/// Each change, and the attribute in the denial for a caller without reveal. `None` if the change
/// is allowed.
fn expression_changes() -> Vec<(TokenPatch, Option<&'static str>)> {
    vec![
        (mask_patch(json!({"number": "{{ data.number }}"})), Some("mask")),
        (mask_patch(json!({"more": "{{ data.number | reveal_last: 8 }}"})), Some("mask")),
        (mask_patch(Value::Null), Some("mask")),
        (mask_patch(json!({"number": "{{ data.number | reveal_last: 4 }}"})), None),
        (fingerprint_patch(Some("{{ data.number | last4 }}")), Some("fingerprint_expression")),
        (fingerprint_patch(Some("{{ data.number }}")), None),
        (fingerprint_patch(None), None),
        (indexes_patch(Some(&["{{ data.number }}"])), Some("search_indexes")),
        (indexes_patch(Some(&[])), None),
        (indexes_patch(None), None),
        (data_patch(json!({"expiration_month": 7})), None),
    ]
}

async fn changing_an_expression_that_discloses_data_requires_reveal(harness: VaultHarness) {
    let (tenant, caller) = harness.tenant_with_default_caller().await;
    let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    for (index, (patch, attribute)) in expression_changes().into_iter().enumerate() {
        let outcome = update(&harness.vault, &caller, &id, patch).await;
        match attribute {
            Some(attribute) => {
                assert_eq!(
                    expect_denial(outcome),
                    Denial::NeedsReveal(attribute),
                    "change {index}"
                );
            }
            None => drop(outcome.unwrap()),
        }
    }
    // The permission to use a token in requests of the vault does not include reading it.
    let permissions = [TOKENS, &[Permission::TokenUse]].concat();
    let user = harness.caller(&tenant, access_without_rules(&permissions)).await;
    let (patch, _) = expression_changes().swap_remove(0);
    let outcome = update(&harness.vault, &user, &id, patch).await;
    assert!(matches!(expect_denial(outcome), Denial::NeedsReveal(_)));
}

async fn caller_with_reveal_may_change_expressions(harness: VaultHarness) {
    let (_, caller) = harness.tenant_with_caller(TOKENS).await;
    for (patch, _) in expression_changes() {
        let id = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
        update(&harness.vault, &caller, &id, patch).await.unwrap();
    }
}

async fn operation_without_its_permission_is_denied(harness: VaultHarness) {
    use Permission::{TokenCreate, TokenDelete, TokenRead, TokenUpdate};
    let (tenant, owner) = harness.tenant_with_default_caller().await;
    for missing in [TokenCreate, TokenRead, TokenUpdate, TokenDelete] {
        // Without the permission anywhere, and with it only in another container.
        let other_permissions: Vec<_> =
            TOKENS.iter().copied().filter(|it| *it != missing).collect();
        let in_other_container = access_with_rules([
            access_rule("/elsewhere/", Transform::Reveal, TOKENS),
            access_rule("/", Transform::Reveal, &other_permissions),
        ]);
        for access in [access_without_rules(&other_permissions), in_other_container] {
            let caller = harness.caller(&tenant, access).await;
            let id = create(&harness.vault, &owner, card(VISA)).await.unwrap().token.id;
            let empty_patch = TokenPatch::default();
            let outcomes = [
                (TokenCreate, create(&harness.vault, &caller, card(DEBIT)).await.map(drop)),
                (TokenRead, get_token(&harness.vault, &caller, &id).await.map(drop)),
                (TokenUpdate, update(&harness.vault, &caller, &id, empty_patch).await.map(drop)),
                (TokenDelete, delete_token(&harness.vault, &caller, &id).await),
            ];
            for (permission, outcome) in outcomes {
                if permission == missing {
                    assert_eq!(expect_denial(outcome), Denial::NoRule(missing));
                } else {
                    outcome.unwrap();
                }
            }
        }
    }
}

async fn token_of_another_tenant_is_not_found(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let other_tenant = harness.default_tenant().await;
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let other_caller = harness.caller(&other_tenant, access_without_rules(TOKENS)).await;
    let written = create(&harness.vault, &caller, card(VISA)).await.unwrap();
    let id = written.token.id;
    for id in [&id, &token_id("unknown")] {
        let empty_patch = TokenPatch::default();
        let outcomes = [
            get_token(&harness.vault, &other_caller, id).await.map(drop),
            update(&harness.vault, &other_caller, id, empty_patch).await.map(drop),
            delete_token(&harness.vault, &other_caller, id).await,
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
        }
    }
    // The same card has a different fingerprint in another tenant.
    let same_card = create(&harness.vault, &other_caller, card(VISA)).await.unwrap();
    assert_ne!(same_card.token.fingerprint, written.token.fingerprint);
    get(&harness.vault, &caller, &id).await;
}

async fn taken_token_id_is_a_conflict(harness: VaultHarness) {
    let (_, caller) = harness.tenant_with_default_caller().await;
    let card_with_id = |number| NewToken { id: Some("mine".to_owned()), ..card(number) };
    create(&harness.vault, &caller, card_with_id(VISA)).await.unwrap();
    let outcome = create_token(&harness.vault, &caller, card_with_id(DEBIT), None).await;
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    delete_token(&harness.vault, &caller, &token_id("mine")).await.unwrap();
    create(&harness.vault, &caller, card_with_id(DEBIT)).await.unwrap();
}
