//! Deduplication: only with the same tenant, type, fingerprint and set of containers.

use std::time::Duration;

use scrip_core::{
    card::TokenType,
    disclosure::Deduplicate,
    token::{ExpressionProvenance, TokenRecord},
    token_batch::CvcChange,
};
use scrip_seal::{ExpressionDigest, Fingerprint};
use scrip_testing::{
    clock::START,
    store_harness::{
        DEDUPLICATE, InsertOutcome, REPORT_EXISTING, SingleUpdate, StoreHarness, UpdateOutcome,
        cvc_record, revised_record, token_record, without_cvc,
    },
    vault_harness::containers,
};

on_every_engine! {
    StoreHarness;
    duplicate_has_the_same_type_fingerprint_and_containers
    duplicate_that_expires_last_is_preferred_then_the_oldest
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

/// Inserts a token that must be a duplicate.
async fn assert_duplicate(harness: &StoreHarness, id: &str, existing: TokenRecord) {
    let outcome = harness.insert_deduplicated(token_record(id)).await;
    assert_eq!(outcome, existing_token(existing));
}

async fn duplicate_has_the_same_type_fingerprint_and_containers(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let second_token = || token_record("second");
    let cases = [
        ("the same", second_token(), true),
        (
            "another order",
            TokenRecord { containers: containers(&["/a/", "/b/"]), ..second_token() },
            true,
        ),
        (
            "fewer containers",
            TokenRecord { containers: containers(&["/a/"]), ..second_token() },
            false,
        ),
        (
            "more containers",
            TokenRecord { containers: containers(&["/a/", "/b/", "/c/"]), ..second_token() },
            false,
        ),
        (
            "a parent container",
            TokenRecord { containers: containers(&["/"]), ..second_token() },
            false,
        ),
        (
            "another type",
            TokenRecord { token_type: TokenType::CardNumber, ..second_token() },
            false,
        ),
        (
            "another fingerprint",
            TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..second_token() },
            false,
        ),
        ("no fingerprint", TokenRecord { fingerprint: None, ..second_token() }, false),
    ];
    for (case, token, is_duplicate) in cases {
        let expected =
            if is_duplicate { existing_token(token_record("first")) } else { InsertOutcome::New };
        assert_eq!(harness.insert_deduplicated(token).await, expected, "{case}");
        assert_eq!(harness.find("second").await.is_some(), !is_duplicate, "{case}");
        harness.delete("second", 0).await;
    }
    // Two tokens without a fingerprint are never duplicates.
    let without_fingerprint = |id| TokenRecord { fingerprint: None, ..token_record(id) };
    assert_eq!(harness.insert_deduplicated(without_fingerprint("third")).await, InsertOutcome::New);
    let outcome = harness.insert_deduplicated(without_fingerprint("fourth")).await;
    assert_eq!(outcome, InsertOutcome::New);
}

async fn duplicate_that_expires_last_is_preferred_then_the_oldest(harness: StoreHarness) {
    let expiring =
        |id, lifetime| TokenRecord { expires_at: Some(START.plus(lifetime)), ..token_record(id) };
    let (expires_first, expires_later) = (expiring("zzz", MINUTE), expiring("mmm", MINUTE * 2));
    for token in
        [expires_first.clone(), token_record("yyy"), token_record("aaa"), expires_later.clone()]
    {
        assert_eq!(harness.insert(token).await, InsertOutcome::New);
    }
    for id in ["yyy", "aaa"] {
        assert_duplicate(&harness, "new", token_record(id)).await;
        harness.delete(id, 0).await;
    }
    assert_duplicate(&harness, "new", expires_later).await;
    harness.delete("mmm", 0).await;
    assert_duplicate(&harness, "new", expires_first).await;
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
    // (type, stored, requested, found to read, found to update)
    let cases = [
        (Card, (1, 1, false), (1, 1, false), true, true),
        (Card, (1, 1, false), (2, 1, false), true, false),
        (Card, (1, 1, false), (2, 2, false), false, false),
        (Card, (1, 1, false), (2, 2, true), false, false),
        (Card, (1, 1, true), (2, 2, false), true, true),
        (Card, (1, 1, true), (2, 2, true), true, true),
        // Data of any form also needs the same fingerprint expression.
        (Token, (1, 1, false), (1, 1, false), true, true),
        (Token, (1, 1, false), (2, 1, false), true, false),
        (Token, (1, 1, true), (2, 1, false), true, true),
        (Token, (1, 1, true), (2, 1, true), true, true),
        (Token, (1, 1, true), (2, 2, false), false, false),
        (Token, (1, 1, true), (2, 2, true), false, false),
    ];
    for (token_type, stored, requested, is_found_to_read, is_found_to_update) in cases {
        let with_expressions = |id, (all, fingerprint, trusted)| TokenRecord {
            token_type,
            expressions: expression_provenance(all, fingerprint, trusted),
            ..token_record(id)
        };
        harness.insert(with_expressions("stored", stored)).await;
        for (deduplicate, is_found) in
            [(DEDUPLICATE, is_found_to_read), (REPORT_EXISTING, is_found_to_update)]
        {
            let insert =
                harness.new_insert(without_cvc(with_expressions("asked", requested)), deduplicate);
            let outcome = harness.insert_token(insert).await.unwrap();
            let case = format!("{token_type:?} {stored:?} {requested:?} {deduplicate:?}");
            assert_eq!(outcome != InsertOutcome::New, is_found, "{case}");
            harness.delete("asked", 0).await;
        }
        harness.delete("stored", 0).await;
    }
}

async fn expired_and_planted_duplicates_do_not_hide_a_live_one(harness: StoreHarness) {
    for number in 0..50 {
        let expires_at = (number % 2 == 0).then_some(START.plus(MINUTE));
        let token = TokenRecord { expires_at, ..token_record(&format!("planted-{number}")) };
        assert_eq!(harness.insert(token).await, InsertOutcome::New);
    }
    harness.advance(MINUTE);
    assert_duplicate(&harness, "new", token_record("planted-1")).await;
}

async fn duplicate_is_found_under_the_requested_id(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    assert_duplicate(&harness, "one", token_record("one")).await;
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
    let other_harness = harness.with_callers_swapped();
    assert_eq!(other_harness.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
}

async fn update_that_becomes_a_duplicate_changes_nothing(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let second_token =
        TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..token_record("second") };
    harness.insert(second_token.clone()).await;

    let updated = TokenRecord {
        fingerprint: token_record("first").fingerprint,
        ..revised_record(&second_token)
    };
    let update = || SingleUpdate {
        cvc: CvcChange::Replace(cvc_record("123")),
        ..harness.new_update(updated.clone(), DEDUPLICATE)
    };
    let expected = UpdateOutcome::Duplicate(Box::new(without_cvc(token_record("first"))));
    assert_eq!(harness.update(update()).await, expected);
    assert_eq!(harness.find("second").await, Some(without_cvc(second_token)));
    assert_eq!(harness.find("first").await, Some(without_cvc(token_record("first"))));

    // A stale revision is reported first, because the compared data has changed.
    let stale = TokenRecord { revision: 7, ..updated.clone() };
    assert_eq!(harness.update(harness.new_update(stale, DEDUPLICATE)).await, UpdateOutcome::Stale);
    let without_deduplication = harness.new_update(updated, Deduplicate::No);
    assert_eq!(harness.update(without_deduplication).await, UpdateOutcome::Done);
}

async fn update_is_not_a_duplicate_of_itself(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let updated = revised_record(&token_record("one"));
    assert_eq!(harness.update(harness.new_update(updated, DEDUPLICATE)).await, UpdateOutcome::Done);
}

async fn updated_token_is_deduplicated_by_its_new_values(harness: StoreHarness) {
    harness.insert(token_record("one")).await;
    let updated = TokenRecord {
        fingerprint: Some(Fingerprint([9; 32])),
        containers: containers(&["/d/", "/c/"]),
        ..revised_record(&token_record("one"))
    };
    harness.revise(updated.clone()).await;
    assert_eq!(harness.insert_deduplicated(token_record("two")).await, InsertOutcome::New);
    let equal_token = TokenRecord {
        fingerprint: updated.fingerprint,
        containers: containers(&["/c/", "/d/"]),
        ..token_record("three")
    };
    assert_eq!(harness.insert_deduplicated(equal_token).await, existing_token(updated));
}
