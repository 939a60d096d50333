//! A batch is written completely or not at all, and reports its conflicts.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use scrip_core::{
    disclosure::Deduplicate,
    idempotency::{ClaimOutcome, IdempotencyRecord, ResponseTokenData, StoredResponse},
    token::{StoredToken, TokenRecord},
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, CvcChange, InsertToken, TokenBatch, TokenWrite,
        UpdateToken, WriteConflict, WriteOutcome,
    },
    types::{Operation, Permission, StoreError},
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    store_harness::{
        DEDUPLICATE, REPORT_EXISTING, StoreHarness, cvc_record, no_events, revised_record,
        token_record, without_cvc,
    },
    vault_harness::{containers, token_id},
};

on_every_engine! {
    StoreHarness;
    batch_writes_all_inserts_and_updates
    empty_batch_can_store_a_response
    batch_with_one_conflict_writes_nothing
    batch_reports_all_conflicts_at_once
    token_id_used_twice_in_a_batch_is_a_conflict
    later_write_of_a_batch_finds_duplicates_of_earlier_ones
    inserts_and_updates_of_a_batch_see_each_other
    reported_duplicate_changes_nothing
    batch_with_a_permit_of_another_tenant_fails
    stored_token_data_of_a_batch_is_removed_token_by_token
    stored_token_data_of_one_token_is_removed_together
    expired_response_is_removed_with_its_token_data
    idempotency_record_with_data_of_an_unwritten_token_is_rejected
    tokens_are_found_in_the_order_of_their_ids
}

const KEY: [u8; 32] = [1; 32];

/// A token without a fingerprint, which is never a duplicate.
fn token_without_fingerprint(id: &str) -> TokenRecord {
    TokenRecord { fingerprint: None, ..token_record(id) }
}

fn build_insert(
    harness: &StoreHarness,
    token: TokenRecord,
    deduplicate: Deduplicate,
) -> TokenWrite {
    TokenWrite::Insert(InsertToken {
        intent: None,
        permit: harness.permit(Permission::TokenCreate),
        token: StoredToken { cvc: Some(cvc_record("123")), ..without_cvc(token) },
        deduplicate,
        audit: harness.audit(Operation::Tokenize),
        events: no_events(),
    })
}

fn build_update(harness: &StoreHarness, token: TokenRecord) -> TokenWrite {
    TokenWrite::Update(UpdateToken {
        intent: None,
        permit: harness.permit(Permission::TokenUpdate),
        token,
        cvc: CvcChange::Remove,
        deduplicate: Deduplicate::No,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::Tokenize),
        events: no_events(),
    })
}

async fn write_batch(harness: &StoreHarness, writes: Vec<TokenWrite>) -> BatchOutcome {
    let batch = TokenBatch { writes, build_record: None };
    harness.store().write_tokens(harness.lookup_permit(), batch).await.unwrap()
}

async fn write_with_record(
    harness: &StoreHarness,
    writes: Vec<TokenWrite>,
    response: IdempotencyRecord,
) -> Result<BatchOutcome, StoreError> {
    let build_record: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    let batch = TokenBatch { writes, build_record: Some(build_record) };
    harness.store().write_tokens(harness.lookup_permit(), batch).await
}

/// An idempotency record with the data of the tokens of these writes.
fn record_with_data(harness: &StoreHarness, write_indexes: &[usize]) -> IdempotencyRecord {
    let token_data = |write_index: &usize| ResponseTokenData {
        write_index: *write_index,
        sealed: Sealed::from_stored(write_index.to_string().into()),
    };
    IdempotencyRecord {
        token_data: write_indexes.iter().map(token_data).collect(),
        ..harness.idempotency_record(KEY)
    }
}

#[track_caller]
fn expect_completed(outcome: ClaimOutcome) -> StoredResponse {
    match outcome {
        ClaimOutcome::Completed(response) => response,
        ClaimOutcome::Claimed(_) | ClaimOutcome::InFlight => {
            panic!("no response is stored: {outcome:?}")
        }
    }
}

/// Finds the stored token data: the write index and the token of each entry.
async fn find_stored_data(harness: &StoreHarness) -> Vec<(usize, String)> {
    let response = expect_completed(harness.claim_digest(KEY).await);
    for data in &response.token_data {
        assert_eq!(data.sealed.as_bytes(), data.write_index.to_string().as_bytes());
        assert_eq!(data.containers, token_record("any").containers);
    }
    response
        .token_data
        .into_iter()
        .map(|it| (it.write_index, it.token.as_str().to_owned()))
        .collect()
}

async fn batch_writes_all_inserts_and_updates(harness: StoreHarness) {
    harness.insert(token_without_fingerprint("old")).await;
    let writes = vec![
        build_insert(&harness, token_without_fingerprint("one"), Deduplicate::No),
        build_update(&harness, revised_record(&token_without_fingerprint("old"))),
        build_insert(&harness, token_without_fingerprint("two"), DEDUPLICATE),
    ];
    let expected = vec![WriteOutcome::New, WriteOutcome::Updated, WriteOutcome::New];
    assert_eq!(write_batch(&harness, writes).await, BatchOutcome::Written(expected));
    for id in ["one", "two"] {
        let expected = StoredToken {
            cvc: Some(cvc_record("123")),
            ..without_cvc(token_without_fingerprint(id))
        };
        assert_eq!(harness.find(id).await, Some(expected));
    }
    let found = harness.find("old").await;
    assert_eq!(found, Some(without_cvc(revised_record(&token_without_fingerprint("old")))));
}

async fn empty_batch_can_store_a_response(harness: StoreHarness) {
    let outcome =
        write_with_record(&harness, vec![], record_with_data(&harness, &[])).await.unwrap();
    assert_eq!(outcome, BatchOutcome::Written(vec![]));
    assert_eq!(find_stored_data(&harness).await, vec![]);
}

/// Each kind of conflict at each position of the batch.
async fn batch_with_one_conflict_writes_nothing(harness: StoreHarness) {
    harness.insert(token_record("taken")).await;
    let built_count = Arc::new(AtomicUsize::new(0));
    for position in 0..4 {
        for reason in 0..4 {
            let writes = (0..4).map(|index| match (index == position, reason) {
                (false, _) => build_insert(
                    &harness,
                    token_without_fingerprint(&format!("id-{index}")),
                    Deduplicate::No,
                ),
                (true, 0) => {
                    build_insert(&harness, token_without_fingerprint("taken"), Deduplicate::No)
                }
                (true, 1) => build_insert(&harness, token_record("same"), REPORT_EXISTING),
                (true, 2) => {
                    build_update(&harness, TokenRecord { revision: 7, ..token_record("taken") })
                }
                (true, _) => build_update(&harness, revised_record(&token_record("absent"))),
            });
            let (counter, response) =
                (Arc::clone(&built_count), record_with_data(&harness, &[0, 1, 2, 3]));
            let build_record: BuildIdempotencyRecord = Box::new(move |_| {
                counter.fetch_add(1, Ordering::SeqCst);
                Some(response)
            });
            let batch = TokenBatch { writes: writes.collect(), build_record: Some(build_record) };
            let outcome =
                harness.store().write_tokens(harness.lookup_permit(), batch).await.unwrap();
            let conflict = match reason {
                0 => WriteConflict::IdTaken,
                1 => WriteConflict::Duplicate(Box::new(without_cvc(token_record("taken")))),
                _ => WriteConflict::Stale,
            };
            assert_eq!(outcome, BatchOutcome::Rejected(vec![(position, conflict)]));
            for index in 0..4 {
                assert_eq!(
                    harness.find(&format!("id-{index}")).await,
                    None,
                    "position {position}, reason {reason}: token {index}"
                );
            }
        }
    }
    assert_eq!(built_count.load(Ordering::SeqCst), 0, "no response should be built");
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::Claimed(_)));
    assert_eq!(harness.find("taken").await, Some(without_cvc(token_record("taken"))));
}

async fn batch_reports_all_conflicts_at_once(harness: StoreHarness) {
    harness.insert(token_record("taken")).await;
    let writes = vec![
        build_insert(&harness, token_without_fingerprint("taken"), Deduplicate::No),
        build_insert(&harness, token_without_fingerprint("free"), Deduplicate::No),
        build_insert(&harness, token_record("other"), REPORT_EXISTING),
        build_update(&harness, revised_record(&token_record("absent"))),
    ];
    let duplicate = WriteConflict::Duplicate(Box::new(without_cvc(token_record("taken"))));
    let expected = vec![(0, WriteConflict::IdTaken), (2, duplicate), (3, WriteConflict::Stale)];
    assert_eq!(write_batch(&harness, writes).await, BatchOutcome::Rejected(expected));
    assert_eq!(harness.find("free").await, None);
}

async fn token_id_used_twice_in_a_batch_is_a_conflict(harness: StoreHarness) {
    let insert_with_id =
        |id| build_insert(&harness, token_without_fingerprint(id), Deduplicate::No);
    let outcome = write_batch(
        &harness,
        vec![insert_with_id("one"), insert_with_id("two"), insert_with_id("one")],
    )
    .await;
    assert_eq!(outcome, BatchOutcome::Rejected(vec![(2, WriteConflict::IdTaken)]));
    assert_eq!((harness.find("one").await, harness.find("two").await), (None, None));
}

async fn later_write_of_a_batch_finds_duplicates_of_earlier_ones(harness: StoreHarness) {
    let first_token =
        || StoredToken { cvc: Some(cvc_record("123")), ..without_cvc(token_record("first")) };
    let equal_inserts = |second_deduplicate| {
        vec![
            build_insert(&harness, token_record("first"), DEDUPLICATE),
            build_insert(&harness, token_record("second"), second_deduplicate),
        ]
    };
    let conflict = WriteConflict::Duplicate(Box::new(first_token()));
    let outcome = write_batch(&harness, equal_inserts(REPORT_EXISTING)).await;
    assert_eq!(outcome, BatchOutcome::Rejected(vec![(1, conflict)]));
    let existing = WriteOutcome::Existing(Box::new(first_token()));
    let outcome = write_batch(&harness, equal_inserts(DEDUPLICATE)).await;
    assert_eq!(outcome, BatchOutcome::Written(vec![WriteOutcome::New, existing]));
    assert_eq!(harness.find("second").await, None);
}

async fn inserts_and_updates_of_a_batch_see_each_other(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let updated = TokenRecord {
        fingerprint: Some(Fingerprint([8; 32])),
        ..revised_record(&token_record("first"))
    };
    // After the update, only the new fingerprint is a duplicate.
    let equal_token = TokenRecord { fingerprint: updated.fingerprint, ..token_record("third") };
    let writes = vec![
        build_update(&harness, updated.clone()),
        build_insert(&harness, token_record("second"), DEDUPLICATE),
        build_insert(&harness, equal_token, DEDUPLICATE),
        build_update(&harness, TokenRecord { revision: 2, ..updated.clone() }),
    ];
    let existing = WriteOutcome::Existing(Box::new(without_cvc(updated)));
    let expected = vec![WriteOutcome::Updated, WriteOutcome::New, existing, WriteOutcome::Updated];
    assert_eq!(write_batch(&harness, writes).await, BatchOutcome::Written(expected));
    assert_eq!(harness.find("first").await.unwrap().record.revision, 2);
}

async fn reported_duplicate_changes_nothing(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let second_token = token_without_fingerprint("second");
    harness.insert(second_token.clone()).await;
    let duplicate = TokenRecord {
        fingerprint: token_record("first").fingerprint,
        ..revised_record(&second_token)
    };
    let mut update = build_update(&harness, duplicate);
    let TokenWrite::Update(it) = &mut update else { panic!("expected an update") };
    it.deduplicate = REPORT_EXISTING;
    let conflict = WriteConflict::Duplicate(Box::new(without_cvc(token_record("first"))));
    let outcome = write_batch(&harness, vec![update]).await;
    assert_eq!(outcome, BatchOutcome::Rejected(vec![(0, conflict)]));
    assert_eq!(harness.find("second").await, Some(without_cvc(second_token)));
}

async fn batch_with_a_permit_of_another_tenant_fails(harness: StoreHarness) {
    let own_write = build_insert(&harness, token_without_fingerprint("ours"), Deduplicate::No);
    let lookup = harness.lookup_permit();
    let other_permit =
        harness.stranger.permit(Permission::TokenCreate, &containers(&["/"])).unwrap();
    let mut other_write =
        build_insert(&harness, token_without_fingerprint("theirs"), Deduplicate::No);
    let TokenWrite::Insert(it) = &mut other_write else { panic!("expected an insert") };
    it.permit = other_permit;
    let batch = TokenBatch { writes: vec![own_write, other_write], build_record: None };
    let outcome = harness.store().write_tokens(lookup, batch).await;
    assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}");
    assert_eq!((harness.find("ours").await, harness.find("theirs").await), (None, None));
    let harness = harness.with_callers_swapped();
    assert_eq!((harness.find("ours").await, harness.find("theirs").await), (None, None));
}

async fn stored_token_data_of_a_batch_is_removed_token_by_token(harness: StoreHarness) {
    harness.insert(token_record("old")).await;
    let writes = vec![
        build_insert(&harness, token_without_fingerprint("one"), Deduplicate::No),
        build_insert(&harness, token_without_fingerprint("two"), Deduplicate::No),
        build_insert(&harness, token_record("three"), DEDUPLICATE),
        build_insert(&harness, token_without_fingerprint("four"), Deduplicate::No),
    ];
    // The response contains no data of the second token.
    write_with_record(&harness, writes, record_with_data(&harness, &[0, 2, 3])).await.unwrap();
    let expected_data = |entries: &[(usize, &str)]| -> Vec<_> {
        entries.iter().map(|(write_index, id)| (*write_index, (*id).to_owned())).collect()
    };
    let found = find_stored_data(&harness).await;
    assert_eq!(found, expected_data(&[(0, "one"), (2, "old"), (3, "four")]));
    harness.delete("two", 0).await;
    let found = find_stored_data(&harness).await;
    assert_eq!(found, expected_data(&[(0, "one"), (2, "old"), (3, "four")]));
    harness.delete("old", 0).await;
    assert_eq!(find_stored_data(&harness).await, expected_data(&[(0, "one"), (3, "four")]));
    // A new token with the same id does not restore the data.
    harness.delete("one", 0).await;
    harness.insert(token_without_fingerprint("one")).await;
    assert_eq!(find_stored_data(&harness).await, expected_data(&[(3, "four")]));
    harness.delete("four", 0).await;
    assert_eq!(find_stored_data(&harness).await, vec![]);
}

async fn stored_token_data_of_one_token_is_removed_together(harness: StoreHarness) {
    let equal_inserts = vec![
        build_insert(&harness, token_record("one"), DEDUPLICATE),
        build_insert(&harness, token_record("two"), DEDUPLICATE),
    ];
    write_with_record(&harness, equal_inserts, record_with_data(&harness, &[0, 1])).await.unwrap();
    let found = find_stored_data(&harness).await;
    assert_eq!(found, vec![(0, "one".to_owned()), (1, "one".to_owned())]);
    harness.delete("one", 0).await;
    assert_eq!(find_stored_data(&harness).await, vec![]);
}

async fn expired_response_is_removed_with_its_token_data(harness: StoreHarness) {
    let two_inserts = |first, second| {
        vec![
            build_insert(&harness, token_without_fingerprint(first), Deduplicate::No),
            build_insert(&harness, token_without_fingerprint(second), Deduplicate::No),
        ]
    };
    write_with_record(&harness, two_inserts("one", "two"), record_with_data(&harness, &[0, 1]))
        .await
        .unwrap();
    harness.advance(scrip_testing::store_harness::DAY);
    // The expired record was not deleted, and its token data is not used for the new record.
    write_with_record(&harness, two_inserts("three", "four"), record_with_data(&harness, &[1]))
        .await
        .unwrap();
    assert_eq!(find_stored_data(&harness).await, vec![(1, "four".to_owned())]);
    assert_eq!(harness.store().delete_expired_responses(harness.now()).await.unwrap(), 1);
    write_with_record(&harness, two_inserts("five", "six"), record_with_data(&harness, &[0]))
        .await
        .unwrap();
    assert_eq!(find_stored_data(&harness).await, vec![(0, "five".to_owned())]);
}

async fn idempotency_record_with_data_of_an_unwritten_token_is_rejected(harness: StoreHarness) {
    let writes = vec![build_insert(&harness, token_without_fingerprint("one"), Deduplicate::No)];
    let outcome = write_with_record(&harness, writes, record_with_data(&harness, &[0, 1])).await;
    assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}");
    assert_eq!(harness.find("one").await, None);
}

async fn tokens_are_found_in_the_order_of_their_ids(harness: StoreHarness) {
    for id in ["one", "two"] {
        harness.insert(token_without_fingerprint(id)).await;
    }
    let find = async |harness: &StoreHarness, ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|it| token_id(it)).collect();
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        harness.store().find_tokens(lookup, &ids, harness.now()).await.unwrap()
    };
    let (first_token, second_token) = (
        Some(without_cvc(token_without_fingerprint("one"))),
        Some(without_cvc(token_without_fingerprint("two"))),
    );
    let tokens = find(&harness, &["two", "none", "one", "two"]).await;
    assert_eq!(tokens, vec![second_token.clone(), None, first_token, second_token]);
    assert_eq!(find(&harness, &[]).await, vec![]);
    let harness = harness.with_callers_swapped();
    assert_eq!(find(&harness, &["one", "two"]).await, vec![None, None]);
}
