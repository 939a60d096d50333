//! What a caller sees, and what it may not change because it would see more.

use scrip_core::{
    error::{Error, Refusal},
    operations::tokens::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
    },
    policy::{Permission, Settings, Transform},
    token::{NewToken, TokenPatch},
};
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    requests::{DEBIT, VISA, card, create, data, get, patch_of, refusal, update},
    vault_harness::{VaultHarness, containers, token_id},
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    the_rule_decides_how_much_is_shown
    a_token_does_not_move_to_where_more_of_it_is_seen
    an_expression_is_not_a_way_to_read
    who_may_reveal_may_change_expressions
    what_is_not_allowed_is_refused
    another_tenants_token_is_not_there
    a_taken_id_is_a_conflict
}

async fn the_rule_decides_how_much_is_shown(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let all = world.caller(&tenant, plain(TOKENS)).await;
    let id = create(&world.vault, &all, card(VISA)).await.unwrap().token.id;
    for (transform, expected) in [
        (Transform::Redact, None),
        (Transform::Mask, Some(json!({"number": "XXXXXXXXXXXX4242"}))),
        (Transform::Reveal, Some(json!({"number": VISA}))),
    ] {
        let caller = world.caller(&tenant, ruled([rule("/pci/", transform, TOKENS)])).await;
        let read = get(&world.vault, &caller, &id).await;
        assert_eq!(data(&read), expected, "{transform:?}");
        let nothing = TokenPatch::default();
        let updated = update(&world.vault, &caller, &id, nothing).await.unwrap();
        assert_eq!(data(&updated.token), expected, "{transform:?}");
        let own = create(&world.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!(data(&own.token), expected, "{transform:?}");
    }
}

async fn a_token_does_not_move_to_where_more_of_it_is_seen(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let all = world.caller(&tenant, plain(TOKENS)).await;
    let rules = ruled([
        rule("/open/", Transform::Reveal, &[Permission::TokenRead]),
        rule("/closed/", Transform::Mask, &[Permission::TokenRead]),
        rule("/open/", Transform::Mask, &[Permission::TokenUpdate]),
        rule("/closed/", Transform::Mask, &[Permission::TokenUpdate]),
    ]);
    let caller = world.caller(&tenant, rules).await;
    let table: &[(&[&str], &[&str], Option<Refusal>)] = &[
        (&["/closed/"], &["/open/"], Some(Refusal::StrongerTransform)),
        (&["/closed/", "/open/"], &["/open/"], Some(Refusal::StrongerTransform)),
        (&["/closed/"], &["/elsewhere/"], Some(Refusal::NoRule(Permission::TokenUpdate))),
        (&["/elsewhere/"], &["/open/"], Some(Refusal::NoRule(Permission::TokenUpdate))),
        (&["/open/"], &["/closed/"], None),
        (&["/closed/"], &["/closed/deeper/"], None),
        (&["/open/"], &["/open/", "/closed/"], None),
        (&["/closed/"], &["/closed/"], None),
    ];
    for (from, to, expected) in table {
        let new = NewToken { containers: Some(containers(from)), ..card(VISA) };
        let id = create(&world.vault, &all, new).await.unwrap().token.id;
        let to = TokenPatch { containers: Some(Some(containers(to))), ..TokenPatch::default() };
        let outcome = update(&world.vault, &caller, &id, to).await;
        match expected {
            Some(expected) => {
                assert_eq!(refusal(outcome), *expected, "{from:?}");
                assert_eq!(get(&world.vault, &all, &id).await.containers, containers(from));
            }
            None => drop(outcome.unwrap()),
        }
    }
}

fn mask(value: Value) -> TokenPatch {
    TokenPatch { mask: Some(value), ..TokenPatch::default() }
}

fn fingerprint(text: Option<&str>) -> TokenPatch {
    let fingerprint_expression = Some(text.map(str::to_owned));
    TokenPatch { fingerprint_expression, ..TokenPatch::default() }
}

fn indexes(texts: Option<&[&str]>) -> TokenPatch {
    let texts = texts.map(|it| it.iter().map(|it| (*it).to_owned()).collect());
    TokenPatch { search_indexes: Some(texts), ..TokenPatch::default() }
}

/// Each change, and the attribute for which it needs the right to read.
fn changes() -> Vec<(TokenPatch, Option<&'static str>)> {
    vec![
        (mask(json!({"number": "{{ data.number }}"})), Some("mask")),
        (mask(json!({"more": "{{ data.number | reveal_last: 8 }}"})), Some("mask")),
        (mask(Value::Null), Some("mask")),
        (mask(json!({"number": "{{ data.number | reveal_last: 4 }}"})), None),
        (fingerprint(Some("{{ data.number | last4 }}")), Some("fingerprint_expression")),
        (fingerprint(Some("{{ data.number }}")), None),
        (fingerprint(None), None),
        (indexes(Some(&["{{ data.number }}"])), Some("search_indexes")),
        (indexes(Some(&[])), None),
        (indexes(None), None),
        (patch_of(json!({"expiration_month": 7})), None),
    ]
}

async fn an_expression_is_not_a_way_to_read(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    for (at, (patch, needs)) in changes().into_iter().enumerate() {
        let outcome = update(&world.vault, &caller, &id, patch).await;
        match needs {
            Some(attribute) => {
                assert_eq!(refusal(outcome), Refusal::NeedsReveal(attribute), "{at}");
            }
            None => drop(outcome.unwrap()),
        }
    }
    // To use a token elsewhere is not to see it.
    let user = [TOKENS, &[Permission::TokenUse]].concat();
    let user = world.caller(&tenant, plain(&user)).await;
    let (patch, _) = changes().swap_remove(0);
    let outcome = update(&world.vault, &user, &id, patch).await;
    assert!(matches!(refusal(outcome), Refusal::NeedsReveal(_)));
}

async fn who_may_reveal_may_change_expressions(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    for (patch, _) in changes() {
        let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
        update(&world.vault, &caller, &id, patch).await.unwrap();
    }
}

async fn what_is_not_allowed_is_refused(world: VaultHarness) {
    use Permission::{TokenCreate, TokenDelete, TokenRead, TokenUpdate};
    let tenant = world.tenant(Settings::default()).await;
    let all = world.caller(&tenant, plain(TOKENS)).await;
    for missing in [TokenCreate, TokenRead, TokenUpdate, TokenDelete] {
        // Nowhere, and not here.
        let rest: Vec<_> = TOKENS.iter().copied().filter(|it| *it != missing).collect();
        let elsewhere = ruled([
            rule("/elsewhere/", Transform::Reveal, TOKENS),
            rule("/", Transform::Reveal, &rest),
        ]);
        for access in [plain(&rest), elsewhere] {
            let caller = world.caller(&tenant, access).await;
            let id = create(&world.vault, &all, card(VISA)).await.unwrap().token.id;
            let nothing = TokenPatch::default();
            let outcomes = [
                (TokenCreate, create(&world.vault, &caller, card(DEBIT)).await.map(drop)),
                (TokenRead, get_token(&world.vault, &caller, &id).await.map(drop)),
                (TokenUpdate, update(&world.vault, &caller, &id, nothing).await.map(drop)),
                (TokenDelete, delete_token(&world.vault, &caller, &id).await),
            ];
            for (permission, outcome) in outcomes {
                if permission == missing {
                    assert_eq!(refusal(outcome), Refusal::NoRule(missing));
                } else {
                    outcome.unwrap();
                }
            }
        }
    }
}

async fn another_tenants_token_is_not_there(world: VaultHarness) {
    let ours = world.tenant(Settings::default()).await;
    let theirs = world.tenant(Settings::default()).await;
    let ours = world.caller(&ours, plain(TOKENS)).await;
    let theirs = world.caller(&theirs, plain(TOKENS)).await;
    let written = create(&world.vault, &ours, card(VISA)).await.unwrap();
    let id = written.token.id;
    for id in [&id, &token_id("unknown")] {
        let nothing = TokenPatch::default();
        let outcomes = [
            get_token(&world.vault, &theirs, id).await.map(drop),
            update(&world.vault, &theirs, id, nothing).await.map(drop),
            delete_token(&world.vault, &theirs, id).await,
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
        }
    }
    // The same card has another fingerprint there.
    let same = create(&world.vault, &theirs, card(VISA)).await.unwrap();
    assert_ne!(same.token.fingerprint, written.token.fingerprint);
    get(&world.vault, &ours, &id).await;
}

async fn a_taken_id_is_a_conflict(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let named = |number| NewToken { id: Some("mine".to_owned()), ..card(number) };
    create(&world.vault, &caller, named(VISA)).await.unwrap();
    let second = create_token(&world.vault, &caller, named(DEBIT), None).await;
    assert!(matches!(second, Err(Error::Conflict { .. })), "{second:?}");
    delete_token(&world.vault, &caller, &token_id("mine")).await.unwrap();
    create(&world.vault, &caller, named(DEBIT)).await.unwrap();
}
