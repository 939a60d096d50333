//! Deduplication as a client meets it: the tenant's settings, the request's, and the caller's rights.

use std::collections::BTreeMap;

use scrip_core::{
    policy::{
        DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
        Permission, Settings, Transform,
    },
    token::{NewToken, TokenPatch},
};
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    requests::{DEBIT, VISA, card, card_with_cvc, create, cvc, data, get, patch_of, update},
    vault_harness::{VaultHarness, containers},
};
use serde_json::json;

on_every_engine! {
    VaultHarness;
    the_request_goes_before_the_tenant
    an_existing_token_is_updated_by_who_may
    an_existing_token_is_only_read_by_who_may_not_update
    without_fingerprints_nothing_is_a_duplicate
    who_may_not_read_learns_only_that_it_is_there
    a_duplicate_is_shown_by_the_weaker_right
    an_update_can_turn_out_to_be_a_duplicate
}

fn once(token_deduplication_behavior: DeduplicationBehavior) -> Settings {
    Settings { deduplicate_tokens: true, token_deduplication_behavior, ..Settings::default() }
}

fn described(new: NewToken, text: &str) -> NewToken {
    let metadata = BTreeMap::from([("note".to_owned(), text.to_owned())]);
    NewToken { metadata: Some(metadata), ..new }
}

async fn the_request_goes_before_the_tenant(world: VaultHarness) {
    for (tenants, requests, expected) in [
        (false, None, None),
        (true, None, Some(ReadExisting)),
        (false, Some(true), Some(ReadExisting)),
        (true, Some(false), None),
    ] {
        let settings = Settings { deduplicate_tokens: tenants, ..Settings::default() };
        let tenant = world.tenant(settings).await;
        let caller = world.caller(&tenant, plain(TOKENS)).await;
        let first = create(&world.vault, &caller, card(VISA)).await.unwrap();
        let again = NewToken { deduplicate: requests, ..card(VISA) };
        let second = create(&world.vault, &caller, again).await.unwrap();
        assert_eq!(first.deduplicated, None);
        assert_eq!(second.deduplicated, expected, "{tenants} {requests:?}");
        assert_eq!(second.token.id == first.token.id, expected.is_some());
        assert_eq!(second.token.fingerprint, first.token.fingerprint);

        let elsewhere = NewToken { containers: Some(containers(&["/pci/low/"])), ..card(VISA) };
        let third = create(&world.vault, &caller, elsewhere).await.unwrap();
        assert_eq!(third.deduplicated, None);
        let other = create(&world.vault, &caller, card(DEBIT)).await.unwrap();
        assert_eq!(other.deduplicated, None);
    }
}

async fn an_existing_token_is_updated_by_who_may(world: VaultHarness) {
    let tenant = world.tenant(once(UpdateExisting)).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let first = described(card_with_cvc(VISA, "123"), "first");
    let first = create(&world.vault, &caller, first).await.unwrap();

    let second = described(card_with_cvc(VISA, "456"), "second");
    let second = create(&world.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(UpdateExisting));
    assert_eq!(second.token.id, first.token.id);
    let found = get(&world.vault, &caller, &first.token.id).await;
    assert_eq!(found.detail.as_ref().unwrap().metadata.as_ref().unwrap()["note"], "second");
    assert_eq!(cvc(&found).as_deref(), Some("456"));
    assert_eq!(data(&found), Some(json!({"number": VISA})));
}

async fn an_existing_token_is_only_read_by_who_may_not_update(world: VaultHarness) {
    let tenant = world.tenant(once(UpdateExisting)).await;
    let all = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let may = [Permission::TokenCreate, Permission::TokenRead];
    // It may update elsewhere, which is not here.
    let rules = ruled([
        rule("/elsewhere/", Transform::Reveal, &[Permission::TokenUpdate]),
        rule("/", Transform::Reveal, &may),
    ]);
    let caller = world.caller(&tenant, rules).await;
    let first = described(card_with_cvc(VISA, "123"), "first");
    let first = create(&world.vault, &all, first).await.unwrap();

    let second = described(card_with_cvc(VISA, "456"), "second");
    let second = create(&world.vault, &caller, second).await.unwrap();
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
    for view in [second.token, get(&world.vault, &all, &first.token.id).await] {
        assert_eq!(cvc(&view).as_deref(), Some("123"));
        assert_eq!(view.detail.unwrap().metadata.unwrap()["note"], "first");
    }
}

async fn without_fingerprints_nothing_is_a_duplicate(world: VaultHarness) {
    let settings = Settings { fingerprint_tokens: false, ..once(ReadExisting) };
    let tenant = world.tenant(settings).await;
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    for _ in 0..2 {
        let written = create(&world.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!((written.token.fingerprint, written.deduplicated), (None, None));
        assert_eq!(written.token.detail.unwrap().fingerprint_expression, None);
    }
    // An expression of one's own is a wish for a fingerprint.
    let own =
        || NewToken { fingerprint_expression: Some("{{ data.number }}".to_owned()), ..card(VISA) };
    let first = create(&world.vault, &caller, own()).await.unwrap();
    let second = create(&world.vault, &caller, own()).await.unwrap();
    assert!(first.token.fingerprint.is_some());
    assert_eq!(second.deduplicated, Some(ReadExisting));
    assert_eq!(second.token.id, first.token.id);
}

async fn who_may_not_read_learns_only_that_it_is_there(world: VaultHarness) {
    let tenant = world.tenant(once(ReadExisting)).await;
    let all = world.caller(&tenant, plain(TOKENS)).await;
    let public = world.caller(&tenant, plain(&[Permission::TokenCreate])).await;
    let first = create(&world.vault, &all, described(card(VISA), "hers")).await.unwrap();
    let second = create(&world.vault, &public, card(VISA)).await.unwrap();
    assert_eq!(second.token.id, first.token.id);
    assert_eq!(second.token.fingerprint, first.token.fingerprint);
    assert!(second.token.detail.is_none());
    // What it made itself it knows.
    let own = create(&world.vault, &public, card(DEBIT)).await.unwrap();
    assert_eq!(data(&own.token), Some(json!({"number": "XXXXXXXXXXXX5556"})));
}

async fn a_duplicate_is_shown_by_the_weaker_right(world: VaultHarness) {
    use Transform::{Mask, Redact, Reveal};
    let tenant = world.tenant(once(ReadExisting)).await;
    let all = world.caller(&tenant, plain(TOKENS)).await;
    create(&world.vault, &all, card(VISA)).await.unwrap();
    let full = Some(json!({"number": VISA}));
    let masked = Some(json!({"number": "XXXXXXXXXXXX4242"}));
    for (to_create, to_read, expected) in [
        (Reveal, Reveal, &full),
        (Reveal, Mask, &masked),
        (Mask, Reveal, &masked),
        (Redact, Reveal, &None),
        (Reveal, Redact, &None),
    ] {
        let rules = ruled([
            rule("/", to_create, &[Permission::TokenCreate]),
            rule("/", to_read, &[Permission::TokenRead]),
        ]);
        let caller = world.caller(&tenant, rules).await;
        let found = create(&world.vault, &caller, card(VISA)).await.unwrap();
        assert_eq!(found.deduplicated, Some(ReadExisting));
        assert_eq!(data(&found.token), *expected, "{to_create:?} {to_read:?}");
    }
}

async fn an_update_can_turn_out_to_be_a_duplicate(world: VaultHarness) {
    let tenant = world.tenant(once(ReadExisting)).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let first = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&world.vault, &caller, card(DEBIT)).await.unwrap().token.id;

    let to_first = || patch_of(json!({"number": VISA}));
    let written = update(&world.vault, &caller, &second, to_first()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (first, Some(ReadExisting)));
    let unchanged = get(&world.vault, &caller, &second).await;
    assert_eq!(data(&unchanged), Some(json!({"number": DEBIT})));

    let anyway = TokenPatch { deduplicate: Some(false), ..to_first() };
    let written = update(&world.vault, &caller, &second, anyway).await.unwrap();
    assert_eq!((&written.token.id, written.deduplicated), (&second, None));
    // There are two of them now, and saying nothing new does not make it one.
    let written = update(&world.vault, &caller, &second, TokenPatch::default()).await.unwrap();
    assert_eq!((written.token.id, written.deduplicated), (second, None));
}
