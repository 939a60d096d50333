//! Tokens are inserted, found, updated and deleted as one would expect, and expire on the instant.

use std::time::Duration;

use scrip_core::{
    store::Changed,
    token::{CvcChange, Deduplicate, StoredToken, TokenRecord},
};
use scrip_testing::{
    clock::START,
    store_harness::{Inserted, StoreHarness, UpdateToken, Updated, bare, code, record, revised},
    vault_harness::containers,
};

on_every_engine! {
    StoreHarness;
    what_is_inserted_is_found
    an_update_replaces_the_record
    what_is_deleted_is_gone_and_gives_up_its_id
    a_live_id_is_taken
    a_token_ends_on_the_instant_it_expires
    an_expired_token_gives_up_its_id
    only_the_revision_that_was_read_is_written
    the_code_is_kept_removed_or_replaced
    the_code_goes_with_its_token
    another_tenant_sees_and_touches_nothing
}

const MINUTE: Duration = Duration::from_secs(60);

async fn insert_with_code(desk: &StoreHarness, id: &str) {
    let token = StoredToken { record: record(id), cvc: Some(code("123")) };
    let insert = desk.insertion(token, Deduplicate::No);
    assert_eq!(desk.insert_token(insert).await.unwrap(), Inserted::New);
}

async fn what_is_inserted_is_found(desk: StoreHarness) {
    let full = TokenRecord { expires_at: Some(START.after(MINUTE)), ..record("full") };
    let spare =
        TokenRecord { fingerprint: None, containers: containers(&["/"]), ..record("spare") };
    for token in [full, spare] {
        assert_eq!(desk.insert(token.clone()).await, Inserted::New);
        assert_eq!(desk.find(token.id.as_str()).await, Some(bare(token)));
    }
    assert_eq!(desk.find("absent").await, None);
    desk.store().check_ready().await.unwrap();
}

async fn an_update_replaces_the_record(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let after = TokenRecord {
        fingerprint: None,
        containers: containers(&["/z/"]),
        expires_at: Some(START.after(MINUTE)),
        ..revised(&record("one"))
    };
    assert_eq!(desk.update(desk.change(after.clone(), Deduplicate::No)).await, Updated::Done);
    assert_eq!(desk.find("one").await, Some(bare(after)));
}

async fn what_is_deleted_is_gone_and_gives_up_its_id(desk: StoreHarness) {
    desk.insert(record("one")).await;
    assert_eq!(desk.delete("one", 0).await, Changed::Done);
    assert_eq!(desk.find("one").await, None);
    assert_eq!(desk.delete("one", 0).await, Changed::Stale);
    let after = revised(&record("one"));
    assert_eq!(desk.update(desk.change(after, Deduplicate::No)).await, Updated::Stale);
    assert_eq!(desk.insert(record("one")).await, Inserted::New);
}

async fn a_live_id_is_taken(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let other = TokenRecord { fingerprint: None, revision: 5, ..record("one") };
    assert_eq!(desk.insert(other).await, Inserted::IdTaken);
    assert_eq!(desk.find("one").await, Some(bare(record("one"))));
}

async fn a_token_ends_on_the_instant_it_expires(desk: StoreHarness) {
    let short = TokenRecord { expires_at: Some(START.after(MINUTE)), ..record("one") };
    desk.insert(short.clone()).await;
    desk.advance(MINUTE - Duration::from_millis(1));
    assert!(desk.find("one").await.is_some());
    assert_eq!(desk.insert(record("one")).await, Inserted::IdTaken);

    desk.advance(Duration::from_millis(1));
    assert_eq!(desk.find("one").await, None);
    let longer = TokenRecord { expires_at: None, ..revised(&short) };
    assert_eq!(desk.update(desk.change(longer, Deduplicate::No)).await, Updated::Stale);
    assert_eq!(desk.delete("one", 0).await, Changed::Stale);
}

async fn an_expired_token_gives_up_its_id(desk: StoreHarness) {
    let token = StoredToken {
        record: TokenRecord { expires_at: Some(START.after(MINUTE)), ..record("one") },
        cvc: Some(code("123")),
    };
    let insert = desk.insertion(token, Deduplicate::No);
    desk.insert_token(insert).await.unwrap();
    desk.advance(MINUTE);
    let next = TokenRecord { body: revised(&record("one")).body, ..record("one") };
    assert_eq!(desk.insert(next.clone()).await, Inserted::New);
    // And the code of the one before it is not among what it left.
    assert_eq!(desk.find("one").await, Some(bare(next)));
}

async fn only_the_revision_that_was_read_is_written(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let first = revised(&record("one"));
    for (revision, expected) in
        [(0, Updated::Stale), (2, Updated::Stale), (1, Updated::Done), (1, Updated::Stale)]
    {
        let after = TokenRecord { revision, ..first.clone() };
        let outcome = desk.update(desk.change(after, Deduplicate::No)).await;
        assert_eq!(outcome, expected, "to revision {revision}");
    }
    assert_eq!(desk.delete("one", 0).await, Changed::Stale);
    assert_eq!(desk.find("one").await, Some(bare(first)));
    assert_eq!(desk.delete("one", 1).await, Changed::Done);
}

async fn the_code_is_kept_removed_or_replaced(desk: StoreHarness) {
    insert_with_code(&desk, "one").await;
    let steps = [
        (CvcChange::Keep, Some(code("123"))),
        (CvcChange::Replace(code("456")), Some(code("456"))),
        (CvcChange::Remove, None),
        (CvcChange::Keep, None),
        (CvcChange::Remove, None),
        (CvcChange::Replace(code("789")), Some(code("789"))),
    ];
    let mut token = record("one");
    for (step, (cvc, expected)) in steps.into_iter().enumerate() {
        token = revised(&token);
        let update = UpdateToken { cvc, ..desk.change(token.clone(), Deduplicate::No) };
        assert_eq!(desk.update(update).await, Updated::Done, "step {step}");
        assert_eq!(desk.find("one").await.unwrap().cvc, expected, "step {step}");
    }
}

async fn the_code_goes_with_its_token(desk: StoreHarness) {
    insert_with_code(&desk, "one").await;
    assert_eq!(desk.find("one").await.unwrap().cvc, Some(code("123")));
    desk.delete("one", 0).await;
    desk.insert(record("one")).await;
    assert_eq!(desk.find("one").await, Some(bare(record("one"))));
}

async fn another_tenant_sees_and_touches_nothing(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let theirs = desk.turned();
    assert_eq!(theirs.find("one").await, None);
    assert_eq!(theirs.delete("one", 0).await, Changed::Stale);
    let after = revised(&record("one"));
    assert_eq!(theirs.update(theirs.change(after, Deduplicate::No)).await, Updated::Stale);
    // Nor is the id in their way.
    assert_eq!(theirs.insert(record("one")).await, Inserted::New);
    assert_eq!(theirs.delete("one", 0).await, Changed::Done);
    assert_eq!(theirs.turned().find("one").await, Some(bare(record("one"))));
}
