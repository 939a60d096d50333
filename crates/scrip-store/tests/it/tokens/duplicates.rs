//! Deduplication: the same tenant, type, fingerprint and set of containers, and nothing less.

use std::time::Duration;

use scrip_core::token::{CvcChange, Deduplicate, ExpressionMarks, TokenRecord, TokenType};
use scrip_seal::{ExpressionDigest, Fingerprint};
use scrip_testing::{
    clock::START,
    store_harness::{Inserted, StoreHarness, UpdateToken, Updated, bare, code, record, revised},
    vault_harness::containers,
};

on_every_engine! {
    StoreHarness;
    what_is_a_duplicate
    the_longest_lived_duplicate_wins_then_the_oldest
    a_duplicate_needs_the_same_expressions_or_trusted_ones
    expired_and_planted_duplicates_do_not_hide_a_live_one
    it_is_found_even_under_the_id_that_was_asked_for
    who_does_not_ask_gets_a_second_one
    an_expired_token_is_no_duplicate
    a_deleted_token_is_no_duplicate
    another_tenants_token_is_no_duplicate
    an_update_that_becomes_a_duplicate_changes_nothing
    an_update_does_not_match_itself
    an_update_is_found_by_what_it_became
}

const MINUTE: Duration = Duration::from_secs(60);

fn existing(record: TokenRecord) -> Inserted {
    Inserted::Existing(Box::new(bare(record)))
}

async fn what_is_a_duplicate(desk: StoreHarness) {
    desk.insert(record("first")).await;
    let new = || record("second");
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
        let expected = if is_duplicate { existing(record("first")) } else { Inserted::New };
        assert_eq!(desk.insert_once(token).await, expected, "{what}");
        assert_eq!(desk.find("second").await.is_some(), !is_duplicate, "{what}");
        desk.delete("second", 0).await;
    }
    // Two without a fingerprint are never the same.
    let unknown = |id| TokenRecord { fingerprint: None, ..record(id) };
    assert_eq!(desk.insert_once(unknown("third")).await, Inserted::New);
    assert_eq!(desk.insert_once(unknown("fourth")).await, Inserted::New);
}

async fn the_longest_lived_duplicate_wins_then_the_oldest(desk: StoreHarness) {
    let ends = |id, after| TokenRecord { expires_at: Some(START.after(after)), ..record(id) };
    let (short, long) = (ends("zzz", MINUTE), ends("mmm", MINUTE * 2));
    for token in [short.clone(), record("yyy"), record("aaa"), long.clone()] {
        assert_eq!(desk.insert(token).await, Inserted::New);
    }
    for id in ["yyy", "aaa"] {
        assert_eq!(desk.insert_once(record("new")).await, existing(record(id)));
        desk.delete(id, 0).await;
    }
    assert_eq!(desk.insert_once(record("new")).await, existing(long));
    desk.delete("mmm", 0).await;
    assert_eq!(desk.insert_once(record("new")).await, existing(short));
    desk.advance(MINUTE);
    assert_eq!(desk.insert_once(record("new")).await, Inserted::New);
}

fn marks(all: u8, fingerprint: u8, trusted: bool) -> ExpressionMarks {
    let digest = |byte| ExpressionDigest([byte; 16]);
    ExpressionMarks {
        all: digest(all),
        fingerprint: digest(fingerprint),
        trusted,
        browser_chose_id: false,
    }
}

async fn a_duplicate_needs_the_same_expressions_or_trusted_ones(desk: StoreHarness) {
    use TokenType::{Card, Token};
    // (type, stored, asked, found to read, found to update)
    let table = [
        (Card, marks(1, 1, false), marks(1, 1, false), true, true),
        (Card, marks(1, 1, false), marks(2, 1, false), true, false),
        (Card, marks(1, 1, false), marks(2, 2, false), false, false),
        (Card, marks(1, 1, false), marks(2, 2, true), false, false),
        (Card, marks(1, 1, true), marks(2, 2, false), true, true),
        (Card, marks(1, 1, true), marks(2, 2, true), true, true),
        // Data of any form also needs the same fingerprint expression.
        (Token, marks(1, 1, false), marks(1, 1, false), true, true),
        (Token, marks(1, 1, false), marks(2, 1, false), true, false),
        (Token, marks(1, 1, true), marks(2, 1, false), true, true),
        (Token, marks(1, 1, true), marks(2, 1, true), true, true),
        (Token, marks(1, 1, true), marks(2, 2, false), false, false),
        (Token, marks(1, 1, true), marks(2, 2, true), false, false),
    ];
    for (token_type, stored, asked, to_read, to_update) in table {
        let marked = |id, expressions| TokenRecord { token_type, expressions, ..record(id) };
        desk.insert(marked("stored", stored)).await;
        for (deduplicate, found) in [(Deduplicate::Yes, to_read), (Deduplicate::Tell, to_update)] {
            let insert = desk.insertion(bare(marked("asked", asked)), deduplicate);
            let inserted = desk.insert_token(insert).await.unwrap();
            let case = format!("{token_type:?} {stored:?} {asked:?} {deduplicate:?}");
            assert_eq!(inserted != Inserted::New, found, "{case}");
            desk.delete("asked", 0).await;
        }
        desk.delete("stored", 0).await;
    }
}

async fn expired_and_planted_duplicates_do_not_hide_a_live_one(desk: StoreHarness) {
    for at in 0..50 {
        let expires_at = (at % 2 == 0).then_some(START.after(MINUTE));
        let token = TokenRecord { expires_at, ..record(&format!("planted-{at}")) };
        assert_eq!(desk.insert(token).await, Inserted::New);
    }
    desk.advance(MINUTE);
    assert_eq!(desk.insert_once(record("new")).await, existing(record("planted-1")));
}

async fn it_is_found_even_under_the_id_that_was_asked_for(desk: StoreHarness) {
    desk.insert(record("one")).await;
    assert_eq!(desk.insert_once(record("one")).await, existing(record("one")));
}

async fn who_does_not_ask_gets_a_second_one(desk: StoreHarness) {
    desk.insert(record("one")).await;
    assert_eq!(desk.insert(record("two")).await, Inserted::New);
}

async fn an_expired_token_is_no_duplicate(desk: StoreHarness) {
    desk.insert(TokenRecord { expires_at: Some(START.after(MINUTE)), ..record("one") }).await;
    desk.advance(MINUTE);
    assert_eq!(desk.insert_once(record("two")).await, Inserted::New);
}

async fn a_deleted_token_is_no_duplicate(desk: StoreHarness) {
    desk.insert(record("one")).await;
    desk.delete("one", 0).await;
    assert_eq!(desk.insert_once(record("two")).await, Inserted::New);
}

async fn another_tenants_token_is_no_duplicate(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let theirs = desk.turned();
    assert_eq!(theirs.insert_once(record("two")).await, Inserted::New);
}

async fn an_update_that_becomes_a_duplicate_changes_nothing(desk: StoreHarness) {
    desk.insert(record("first")).await;
    let other = TokenRecord { fingerprint: Some(Fingerprint([8; 32])), ..record("second") };
    desk.insert(other.clone()).await;

    let after = TokenRecord { fingerprint: record("first").fingerprint, ..revised(&other) };
    let update = || UpdateToken {
        cvc: CvcChange::Replace(code("123")),
        ..desk.change(after.clone(), Deduplicate::Yes)
    };
    let expected = Updated::Duplicate(Box::new(bare(record("first"))));
    assert_eq!(desk.update(update()).await, expected);
    assert_eq!(desk.find("second").await, Some(bare(other)));
    assert_eq!(desk.find("first").await, Some(bare(record("first"))));

    // Whoever was late hears that first: what it compared with is not there any more.
    let late = TokenRecord { revision: 7, ..after.clone() };
    assert_eq!(desk.update(desk.change(late, Deduplicate::Yes)).await, Updated::Stale);
    let asked = desk.change(after, Deduplicate::No);
    assert_eq!(desk.update(asked).await, Updated::Done);
}

async fn an_update_does_not_match_itself(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let after = revised(&record("one"));
    assert_eq!(desk.update(desk.change(after, Deduplicate::Yes)).await, Updated::Done);
}

async fn an_update_is_found_by_what_it_became(desk: StoreHarness) {
    desk.insert(record("one")).await;
    let moved = TokenRecord {
        fingerprint: Some(Fingerprint([9; 32])),
        containers: containers(&["/d/", "/c/"]),
        ..revised(&record("one"))
    };
    desk.update(desk.change(moved.clone(), Deduplicate::No)).await;
    assert_eq!(desk.insert_once(record("two")).await, Inserted::New);
    let same = TokenRecord {
        fingerprint: moved.fingerprint,
        containers: containers(&["/c/", "/d/"]),
        ..record("three")
    };
    assert_eq!(desk.insert_once(same).await, existing(moved));
}
