//! Tokens are inserted, found, updated, deleted, and expire exactly on time.

use std::time::Duration;

use scrip_core::{
    change::ChangeOutcome,
    disclosure::Deduplicate,
    token::{StoredToken, TokenRecord},
    token_batch::CvcChange,
};
use scrip_testing::{
    clock::START,
    store_harness::{
        InsertOutcome, SingleUpdate, StoreHarness, UpdateOutcome, cvc_record, revised_record,
        token_record, without_cvc,
    },
    vault_harness::containers,
};

on_every_engine! {
    StoreHarness;
    inserted_token_is_found
    update_replaces_the_token_record
    deleted_token_is_not_found_and_its_id_is_free
    id_of_a_live_token_is_taken
    token_expires_at_its_exact_time
    id_of_an_expired_token_is_free
    token_update_requires_the_revision_that_was_read
    update_keeps_removes_or_replaces_the_cvc
    deleting_a_token_removes_its_cvc
    token_of_another_tenant_is_neither_found_nor_changed
}

const MINUTE: Duration = Duration::from_secs(60);

async fn insert_with_cvc(harness: &StoreHarness, id: &str) {
    let token = StoredToken { record: token_record(id), cvc: Some(cvc_record("123")) };
    let insert = harness.new_insert(token, Deduplicate::No);
    assert_eq!(harness.insert_token(insert).await.unwrap(), InsertOutcome::New);
}

async fn inserted_token_is_found(harness: StoreHarness) {
    let with_all_columns =
        TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("full") };
    let with_few_columns =
        TokenRecord { fingerprint: None, containers: containers(&["/"]), ..token_record("spare") };
    for token in [with_all_columns, with_few_columns] {
        assert_eq!(harness.insert(token.clone()).await, InsertOutcome::New);
        assert_eq!(harness.find(token.id.as_str()).await, Some(without_cvc(token)));
    }
    assert_eq!(harness.find("absent").await, None);
    harness.store().check_ready().await.unwrap();
}

async fn update_replaces_the_token_record(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let updated = TokenRecord {
        fingerprint: None,
        containers: containers(&["/z/"]),
        expires_at: Some(START.plus(MINUTE)),
        ..revised_record(&token_record("one"))
    };
    assert_eq!(harness.revise(updated.clone()).await, UpdateOutcome::Done);
    assert_eq!(harness.find("one").await, Some(without_cvc(updated)));
}

async fn deleted_token_is_not_found_and_its_id_is_free(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    assert_eq!(harness.delete("one", 0).await, ChangeOutcome::Done);
    assert_eq!(harness.find("one").await, None);
    assert_eq!(harness.delete("one", 0).await, ChangeOutcome::Stale);
    let updated = revised_record(&token_record("one"));
    assert_eq!(harness.revise(updated).await, UpdateOutcome::Stale);
    assert_eq!(harness.insert(token_record("one")).await, InsertOutcome::New);
}

async fn id_of_a_live_token_is_taken(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let other_record = TokenRecord { fingerprint: None, revision: 5, ..token_record("one") };
    assert_eq!(harness.insert(other_record).await, InsertOutcome::IdTaken);
    assert_eq!(harness.find("one").await, Some(without_cvc(token_record("one"))));
}

async fn token_expires_at_its_exact_time(harness: StoreHarness) {
    let expiring = TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("one") };
    harness.insert(expiring.clone()).await;
    harness.advance(MINUTE - Duration::from_millis(1));
    assert!(harness.find("one").await.is_some());
    assert_eq!(harness.insert(token_record("one")).await, InsertOutcome::IdTaken);

    harness.advance(Duration::from_millis(1));
    assert_eq!(harness.find("one").await, None);
    let extended = TokenRecord { expires_at: None, ..revised_record(&expiring) };
    assert_eq!(harness.revise(extended).await, UpdateOutcome::Stale);
    assert_eq!(harness.delete("one", 0).await, ChangeOutcome::Stale);
}

async fn id_of_an_expired_token_is_free(harness: StoreHarness) {
    let token = StoredToken {
        record: TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("one") },
        cvc: Some(cvc_record("123")),
    };
    let insert = harness.new_insert(token, Deduplicate::No);
    harness.insert_token(insert).await.unwrap();
    harness.advance(MINUTE);
    let replacement =
        TokenRecord { body: revised_record(&token_record("one")).body, ..token_record("one") };
    assert_eq!(harness.insert(replacement.clone()).await, InsertOutcome::New);
    // The CVC of the previous token is not left over.
    assert_eq!(harness.find("one").await, Some(without_cvc(replacement)));
}

async fn token_update_requires_the_revision_that_was_read(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let updated = revised_record(&token_record("one"));
    for (revision, expected) in [
        (0, UpdateOutcome::Stale),
        (2, UpdateOutcome::Stale),
        (1, UpdateOutcome::Done),
        (1, UpdateOutcome::Stale),
    ] {
        let with_revision = TokenRecord { revision, ..updated.clone() };
        let outcome = harness.revise(with_revision).await;
        assert_eq!(outcome, expected, "to revision {revision}");
    }
    assert_eq!(harness.delete("one", 0).await, ChangeOutcome::Stale);
    assert_eq!(harness.find("one").await, Some(without_cvc(updated)));
    assert_eq!(harness.delete("one", 1).await, ChangeOutcome::Done);
}

async fn update_keeps_removes_or_replaces_the_cvc(harness: StoreHarness) {
    insert_with_cvc(&harness, "one").await;
    let steps = [
        (CvcChange::Keep, Some(cvc_record("123"))),
        (CvcChange::Replace(cvc_record("456")), Some(cvc_record("456"))),
        (CvcChange::Remove, None),
        (CvcChange::Keep, None),
        (CvcChange::Remove, None),
        (CvcChange::Replace(cvc_record("789")), Some(cvc_record("789"))),
    ];
    let mut token = token_record("one");
    for (step, (cvc, expected)) in steps.into_iter().enumerate() {
        token = revised_record(&token);
        let update = SingleUpdate { cvc, ..harness.new_update(token.clone(), Deduplicate::No) };
        assert_eq!(harness.update(update).await, UpdateOutcome::Done, "step {step}");
        assert_eq!(harness.find("one").await.unwrap().cvc, expected, "step {step}");
    }
}

async fn deleting_a_token_removes_its_cvc(harness: StoreHarness) {
    insert_with_cvc(&harness, "one").await;
    assert_eq!(harness.find("one").await.unwrap().cvc, Some(cvc_record("123")));
    harness.delete("one", 0).await;
    harness.insert(token_record("one")).await;
    assert_eq!(harness.find("one").await, Some(without_cvc(token_record("one"))));
}

async fn token_of_another_tenant_is_neither_found_nor_changed(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let other_harness = harness.with_callers_swapped();
    assert_eq!(other_harness.find("one").await, None);
    assert_eq!(other_harness.delete("one", 0).await, ChangeOutcome::Stale);
    let updated = revised_record(&token_record("one"));
    assert_eq!(other_harness.revise(updated).await, UpdateOutcome::Stale);
    // The same id in another tenant is no conflict.
    assert_eq!(other_harness.insert(token_record("one")).await, InsertOutcome::New);
    assert_eq!(other_harness.delete("one", 0).await, ChangeOutcome::Done);
    let found = other_harness.with_callers_swapped().find("one").await;
    assert_eq!(found, Some(without_cvc(token_record("one"))));
}
