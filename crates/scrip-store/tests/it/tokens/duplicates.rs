//! Deduplication: the same tenant, type, fingerprint and set of containers, and nothing less.

use std::time::Duration;

use scrip_core::token::{CvcChange, Deduplicate, ExpressionProvenance, TokenRecord, TokenType};
use scrip_seal::{ExpressionDigest, Fingerprint};
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
    duplicate_has_the_same_type_fingerprint_and_containers
    the_longest_lived_duplicate_wins_then_the_oldest
    duplicate_needs_equal_or_trusted_expressions
    expired_and_planted_duplicates_do_not_hide_a_live_one
    duplicate_is_found_under_the_requested_id
    insert_without_deduplication_creates_a_second_token
    expired_token_is_no_duplicate
    deleted_token_is_no_duplicate
    token_of_another_tenant_is_no_duplicate
    update_that_becomes_a_duplicate_changes_nothing
    update_is_not_a_duplicate_of_itself
    updated_token_is_deduplicated_by_its_new_values
}

const MINUTE: Duration = Duration::from_secs(60);

fn existing_token(record: TokenRecord) -> InsertOutcome {
    InsertOutcome::Existing(Box::new(without_cvc(record)))
}

async fn duplicate_has_the_same_type_fingerprint_and_containers(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let new = || token_record("second");
    let table = [
        ("the same", new(), true),
        ("another order", TokenRecord { containers: containers(&["/a/", "/b/"]), ..new() }, true),
        ("fewer", TokenRecord { containers: containers(&["/a/"]), ..new() }, false),
        ("more", TokenRecord { containers: containers(&["/a/", "/b/", "/c/"]), ..new() }, false),
        ("a parent", TokenRecord { containers: containers(&["/"]), ..new() }, false),
        ("a type", TokenRecord { token_type: TokenType::CardNumber, ..new() }, false),
        ("a value", TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..new() }, false),
        ("no fingerprint", TokenRecord { fingerprint: None, ..new() }, false),
    ];
    for (what, token, is_duplicate) in table {
        let expected =
            if is_duplicate { existing_token(token_record("first")) } else { InsertOutcome::New };
        assert_eq!(harness.insert_deduplicated(token).await, expected, "{what}");
        assert_eq!(harness.find("second").await.is_some(), !is_duplicate, "{what}");
        harness.delete("second", 0).await;
    }
    // Two without a fingerprint are never the same.
    let unknown = |id| TokenRecord { fingerprint: None, ..token_record(id) };
    assert_eq!(harness.insert_deduplicated(unknown("third")).await, InsertOutcome::New);
    assert_eq!(harness.insert_deduplicated(unknown("fourth")).await, InsertOutcome::New);
}

async fn the_longest_lived_duplicate_wins_then_the_oldest(harness: StoreHarness) {
    let ends = |id, after| TokenRecord { expires_at: Some(START.plus(after)), ..token_record(id) };
    let (short, long) = (ends("zzz", MINUTE), ends("mmm", MINUTE * 2));
    for token in [short.clone(), token_record("yyy"), token_record("aaa"), long.clone()] {
        assert_eq!(harness.insert(token).await, InsertOutcome::New);
    }
    for id in ["yyy", "aaa"] {
        assert_eq!(
            harness.insert_deduplicated(token_record("new")).await,
            existing_token(token_record(id))
        );
        harness.delete(id, 0).await;
    }
    assert_eq!(harness.insert_deduplicated(token_record("new")).await, existing_token(long));
    harness.delete("mmm", 0).await;
    assert_eq!(harness.insert_deduplicated(token_record("new")).await, existing_token(short));
    harness.advance(MINUTE);
    assert_eq!(harness.insert_deduplicated(token_record("new")).await, InsertOutcome::New);
}

fn expression_provenance(all: u8, fingerprint: u8, trusted: bool) -> ExpressionProvenance {
    let digest = |byte| ExpressionDigest([byte; 16]);
    ExpressionProvenance {
        all_digest: digest(all),
        fingerprint_digest: digest(fingerprint),
        trusted,
        browser_chose_id: false,
    }
}

async fn duplicate_needs_equal_or_trusted_expressions(harness: StoreHarness) {
    use TokenType::{Card, Token};
    // (type, stored, asked, found to read, found to update)
    let table = [
        (Card, expression_provenance(1, 1, false), expression_provenance(1, 1, false), true, true),
        (Card, expression_provenance(1, 1, false), expression_provenance(2, 1, false), true, false),
        (
            Card,
            expression_provenance(1, 1, false),
            expression_provenance(2, 2, false),
            false,
            false,
        ),
        (Card, expression_provenance(1, 1, false), expression_provenance(2, 2, true), false, false),
        (Card, expression_provenance(1, 1, true), expression_provenance(2, 2, false), true, true),
        (Card, expression_provenance(1, 1, true), expression_provenance(2, 2, true), true, true),
        // Data of any form also needs the same fingerprint expression.
        (Token, expression_provenance(1, 1, false), expression_provenance(1, 1, false), true, true),
        (
            Token,
            expression_provenance(1, 1, false),
            expression_provenance(2, 1, false),
            true,
            false,
        ),
        (Token, expression_provenance(1, 1, true), expression_provenance(2, 1, false), true, true),
        (Token, expression_provenance(1, 1, true), expression_provenance(2, 1, true), true, true),
        (
            Token,
            expression_provenance(1, 1, true),
            expression_provenance(2, 2, false),
            false,
            false,
        ),
        (Token, expression_provenance(1, 1, true), expression_provenance(2, 2, true), false, false),
    ];
    for (token_type, stored, asked, to_read, to_update) in table {
        let marked = |id, expressions| TokenRecord { token_type, expressions, ..token_record(id) };
        harness.insert(marked("stored", stored)).await;
        for (deduplicate, found) in
            [(Deduplicate::Yes, to_read), (Deduplicate::ReportExisting, to_update)]
        {
            let insert = harness.new_insert(without_cvc(marked("asked", asked)), deduplicate);
            let inserted = harness.insert_token(insert).await.unwrap();
            let case = format!("{token_type:?} {stored:?} {asked:?} {deduplicate:?}");
            assert_eq!(inserted != InsertOutcome::New, found, "{case}");
            harness.delete("asked", 0).await;
        }
        harness.delete("stored", 0).await;
    }
}

async fn expired_and_planted_duplicates_do_not_hide_a_live_one(harness: StoreHarness) {
    for at in 0..50 {
        let expires_at = (at % 2 == 0).then_some(START.plus(MINUTE));
        let token = TokenRecord { expires_at, ..token_record(&format!("planted-{at}")) };
        assert_eq!(harness.insert(token).await, InsertOutcome::New);
    }
    harness.advance(MINUTE);
    assert_eq!(
        harness.insert_deduplicated(token_record("new")).await,
        existing_token(token_record("planted-1"))
    );
}

async fn duplicate_is_found_under_the_requested_id(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    assert_eq!(
        harness.insert_deduplicated(token_record("one")).await,
        existing_token(token_record("one"))
    );
}

async fn insert_without_deduplication_creates_a_second_token(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    assert_eq!(harness.insert(token_record("two")).await, InsertOutcome::New);
}

async fn expired_token_is_no_duplicate(harness: StoreHarness) {
    harness
        .insert(TokenRecord { expires_at: Some(START.plus(MINUTE)), ..token_record("one") })
        .await;
    harness.advance(MINUTE);
    assert_eq!(harness.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
}

async fn deleted_token_is_no_duplicate(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    harness.delete("one", 0).await;
    assert_eq!(harness.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
}

async fn token_of_another_tenant_is_no_duplicate(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let theirs = harness.with_callers_swapped();
    assert_eq!(theirs.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
}

async fn update_that_becomes_a_duplicate_changes_nothing(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("second") };
    harness.insert(other.clone()).await;

    let after =
        TokenRecord { fingerprint: token_record("first").fingerprint, ..revised_record(&other) };
    let update = || SingleUpdate {
        cvc: CvcChange::Replace(cvc_record("123")),
        ..harness.new_update(after.clone(), Deduplicate::Yes)
    };
    let expected = UpdateOutcome::Duplicate(Box::new(without_cvc(token_record("first"))));
    assert_eq!(harness.update(update()).await, expected);
    assert_eq!(harness.find("second").await, Some(without_cvc(other)));
    assert_eq!(harness.find("first").await, Some(without_cvc(token_record("first"))));

    // Whoever was late hears that first: what it compared with is not there any more.
    let late = TokenRecord { revision: 7, ..after.clone() };
    assert_eq!(
        harness.update(harness.new_update(late, Deduplicate::Yes)).await,
        UpdateOutcome::Stale
    );
    let asked = harness.new_update(after, Deduplicate::No);
    assert_eq!(harness.update(asked).await, UpdateOutcome::Done);
}

async fn update_is_not_a_duplicate_of_itself(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let after = revised_record(&token_record("one"));
    assert_eq!(
        harness.update(harness.new_update(after, Deduplicate::Yes)).await,
        UpdateOutcome::Done
    );
}

async fn updated_token_is_deduplicated_by_its_new_values(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let moved = TokenRecord {
        fingerprint: Some(Fingerprint([9; 32])),
        containers: containers(&["/d/", "/c/"]),
        ..revised_record(&token_record("one"))
    };
    harness.update(harness.new_update(moved.clone(), Deduplicate::No)).await;
    assert_eq!(harness.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
    let same = TokenRecord {
        fingerprint: moved.fingerprint,
        containers: containers(&["/c/", "/d/"]),
        ..token_record("three")
    };
    assert_eq!(harness.insert_deduplicated(same).await, existing_token(moved));
}
