//! A batch happens as a whole or not at all, and says what stood in its way.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use scrip_core::{
    audit::Operation,
    idempotency::{ClaimOutcome, IdempotencyRecord, ResponseTokenData, StoredResponse},
    policy::Permission,
    store::StoreError,
    token::{
        BatchOutcome, BuildIdempotencyRecord, CvcChange, Deduplicate, InsertToken, StoredToken,
        TokenBatch, TokenRecord, TokenWrite, UpdateToken, WriteConflict, WriteOutcome,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_testing::{
    store_harness::{StoreHarness, cvc_record, revised_record, token_record, without_cvc},
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
    idempotency_record_naming_an_unwritten_token_is_rejected
    tokens_are_found_in_the_order_of_their_ids
}

const KEY: [u8; 32] = [1; 32];

/// Without a fingerprint, so that no two are the same.
fn token_without_fingerprint(id: &str) -> TokenRecord {
    TokenRecord { fingerprint: None, ..token_record(id) }
}

fn insert_write(
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
    })
}

fn update_write(harness: &StoreHarness, token: TokenRecord) -> TokenWrite {
    TokenWrite::Update(UpdateToken {
        intent: None,
        permit: harness.permit(Permission::TokenUpdate),
        token,
        cvc: CvcChange::Remove,
        deduplicate: Deduplicate::No,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::Tokenize),
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
    let render: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    let batch = TokenBatch { writes, build_record: Some(render) };
    harness.store().write_tokens(harness.lookup_permit(), batch).await
}

/// An answer that shows each of these.
fn record_showing(harness: &StoreHarness, parts: &[usize]) -> IdempotencyRecord {
    let part = |at: &usize| ResponseTokenData {
        write_index: *at,
        sealed: Sealed::from_stored(at.to_string().into()),
    };
    IdempotencyRecord {
        token_data: parts.iter().map(part).collect(),
        ..harness.idempotency_record(KEY)
    }
}

#[track_caller]
fn expect_completed(claimed: ClaimOutcome) -> StoredResponse {
    match claimed {
        ClaimOutcome::Completed(response) => response,
        ClaimOutcome::Claimed(_) | ClaimOutcome::InFlight => panic!("{claimed:?}"),
    }
}

/// Which parts are left, and of which tokens.
async fn stored_parts(harness: &StoreHarness) -> Vec<(usize, String)> {
    let response = expect_completed(harness.claim_digest(KEY).await);
    for part in &response.token_data {
        assert_eq!(part.sealed.as_bytes(), part.write_index.to_string().as_bytes());
        assert_eq!(part.containers, token_record("any").containers);
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
        insert_write(&harness, token_without_fingerprint("one"), Deduplicate::No),
        update_write(&harness, revised_record(&token_without_fingerprint("old"))),
        insert_write(&harness, token_without_fingerprint("two"), Deduplicate::Yes),
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
    assert_eq!(
        harness.find("old").await,
        Some(without_cvc(revised_record(&token_without_fingerprint("old"))))
    );
}

async fn empty_batch_can_store_a_response(harness: StoreHarness) {
    let batched = write_with_record(&harness, vec![], record_showing(&harness, &[])).await.unwrap();
    assert_eq!(batched, BatchOutcome::Written(vec![]));
    assert_eq!(stored_parts(&harness).await, vec![]);
}

/// At each place, for each reason.
async fn batch_with_one_conflict_writes_nothing(harness: StoreHarness) {
    harness.insert(token_record("taken")).await;
    let rendered = Arc::new(AtomicUsize::new(0));
    for refused in 0..4 {
        for reason in 0..4 {
            let writes = (0..4).map(|at| match (at == refused, reason) {
                (false, _) => insert_write(
                    &harness,
                    token_without_fingerprint(&format!("id-{at}")),
                    Deduplicate::No,
                ),
                (true, 0) => {
                    insert_write(&harness, token_without_fingerprint("taken"), Deduplicate::No)
                }
                (true, 1) => {
                    insert_write(&harness, token_record("same"), Deduplicate::ReportExisting)
                }
                (true, 2) => {
                    update_write(&harness, TokenRecord { revision: 7, ..token_record("taken") })
                }
                (true, _) => update_write(&harness, revised_record(&token_record("absent"))),
            });
            let (count, response) =
                (Arc::clone(&rendered), record_showing(&harness, &[0, 1, 2, 3]));
            let render: BuildIdempotencyRecord = Box::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                Some(response)
            });
            let batch = TokenBatch { writes: writes.collect(), build_record: Some(render) };
            let batched =
                harness.store().write_tokens(harness.lookup_permit(), batch).await.unwrap();
            let obstacle = match reason {
                0 => WriteConflict::IdTaken,
                1 => WriteConflict::Duplicate(Box::new(without_cvc(token_record("taken")))),
                _ => WriteConflict::Stale,
            };
            assert_eq!(batched, BatchOutcome::Rejected(vec![(refused, obstacle)]));
            for at in 0..4 {
                assert_eq!(
                    harness.find(&format!("id-{at}")).await,
                    None,
                    "{refused} {reason} {at}"
                );
            }
        }
    }
    assert_eq!(rendered.load(Ordering::SeqCst), 0, "there was nothing to answer");
    assert!(matches!(harness.claim_digest(KEY).await, ClaimOutcome::Claimed(_)));
    assert_eq!(harness.find("taken").await, Some(without_cvc(token_record("taken"))));
}

async fn batch_reports_all_conflicts_at_once(harness: StoreHarness) {
    harness.insert(token_record("taken")).await;
    let writes = vec![
        insert_write(&harness, token_without_fingerprint("taken"), Deduplicate::No),
        insert_write(&harness, token_without_fingerprint("free"), Deduplicate::No),
        insert_write(&harness, token_record("other"), Deduplicate::ReportExisting),
        update_write(&harness, revised_record(&token_record("absent"))),
    ];
    let found = WriteConflict::Duplicate(Box::new(without_cvc(token_record("taken"))));
    let expected = vec![(0, WriteConflict::IdTaken), (2, found), (3, WriteConflict::Stale)];
    assert_eq!(write_batch(&harness, writes).await, BatchOutcome::Rejected(expected));
    assert_eq!(harness.find("free").await, None);
}

async fn token_id_used_twice_in_a_batch_is_a_conflict(harness: StoreHarness) {
    let insert = |id| insert_write(&harness, token_without_fingerprint(id), Deduplicate::No);
    let batched = write_batch(&harness, vec![insert("one"), insert("two"), insert("one")]).await;
    assert_eq!(batched, BatchOutcome::Rejected(vec![(2, WriteConflict::IdTaken)]));
    assert_eq!((harness.find("one").await, harness.find("two").await), (None, None));
}

async fn later_write_of_a_batch_finds_duplicates_of_earlier_ones(harness: StoreHarness) {
    let first =
        || StoredToken { cvc: Some(cvc_record("123")), ..without_cvc(token_record("first")) };
    let twice = |second| {
        vec![
            insert_write(&harness, token_record("first"), Deduplicate::Yes),
            insert_write(&harness, token_record("second"), second),
        ]
    };
    let told = WriteConflict::Duplicate(Box::new(first()));
    let batched = write_batch(&harness, twice(Deduplicate::ReportExisting)).await;
    assert_eq!(batched, BatchOutcome::Rejected(vec![(1, told)]));
    let existing = WriteOutcome::Existing(Box::new(first()));
    let batched = write_batch(&harness, twice(Deduplicate::Yes)).await;
    assert_eq!(batched, BatchOutcome::Written(vec![WriteOutcome::New, existing]));
    assert_eq!(harness.find("second").await, None);
}

async fn inserts_and_updates_of_a_batch_see_each_other(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let after = TokenRecord {
        fingerprint: Some(Fingerprint([8; 32])),
        ..revised_record(&token_record("first"))
    };
    // What it was is no duplicate any more, what it became is one.
    let same = TokenRecord { fingerprint: after.fingerprint, ..token_record("third") };
    let writes = vec![
        update_write(&harness, after.clone()),
        insert_write(&harness, token_record("second"), Deduplicate::Yes),
        insert_write(&harness, same, Deduplicate::Yes),
        update_write(&harness, TokenRecord { revision: 2, ..after.clone() }),
    ];
    let existing = WriteOutcome::Existing(Box::new(without_cvc(after)));
    let expected = vec![WriteOutcome::Updated, WriteOutcome::New, existing, WriteOutcome::Updated];
    assert_eq!(write_batch(&harness, writes).await, BatchOutcome::Written(expected));
    assert_eq!(harness.find("first").await.unwrap().record.revision, 2);
}

async fn reported_duplicate_changes_nothing(harness: StoreHarness) {
    harness.insert(token_record("first")).await;
    let other = token_without_fingerprint("second");
    harness.insert(other.clone()).await;
    let same =
        TokenRecord { fingerprint: token_record("first").fingerprint, ..revised_record(&other) };
    let mut write_ = update_write(&harness, same);
    let TokenWrite::Update(it) = &mut write_ else { panic!("it is an update") };
    it.deduplicate = Deduplicate::ReportExisting;
    let told = WriteConflict::Duplicate(Box::new(without_cvc(token_record("first"))));
    assert_eq!(write_batch(&harness, vec![write_]).await, BatchOutcome::Rejected(vec![(0, told)]));
    assert_eq!(harness.find("second").await, Some(without_cvc(other)));
}

async fn batch_with_a_permit_of_another_tenant_fails(harness: StoreHarness) {
    let ours = insert_write(&harness, token_without_fingerprint("ours"), Deduplicate::No);
    let lookup = harness.lookup_permit();
    let theirs = harness.stranger.permit(Permission::TokenCreate, &containers(&["/"])).unwrap();
    let mut other = insert_write(&harness, token_without_fingerprint("theirs"), Deduplicate::No);
    let TokenWrite::Insert(it) = &mut other else { panic!("it is an insert") };
    it.permit = theirs;
    let batch = TokenBatch { writes: vec![ours, other], build_record: None };
    let batched = harness.store().write_tokens(lookup, batch).await;
    assert!(matches!(batched, Err(StoreError::Corrupt(_))), "{batched:?}");
    assert_eq!((harness.find("ours").await, harness.find("theirs").await), (None, None));
    let harness = harness.with_callers_swapped();
    assert_eq!((harness.find("ours").await, harness.find("theirs").await), (None, None));
}

async fn stored_token_data_of_a_batch_is_removed_token_by_token(harness: StoreHarness) {
    harness.insert(token_record("old")).await;
    let writes = vec![
        insert_write(&harness, token_without_fingerprint("one"), Deduplicate::No),
        insert_write(&harness, token_without_fingerprint("two"), Deduplicate::No),
        insert_write(&harness, token_record("three"), Deduplicate::Yes),
        insert_write(&harness, token_without_fingerprint("four"), Deduplicate::No),
    ];
    // Of the second nothing is shown.
    write_with_record(&harness, writes, record_showing(&harness, &[0, 2, 3])).await.unwrap();
    let named = |left: &[(usize, &str)]| -> Vec<_> {
        left.iter().map(|(at, id)| (*at, (*id).to_owned())).collect()
    };
    assert_eq!(stored_parts(&harness).await, named(&[(0, "one"), (2, "old"), (3, "four")]));
    harness.delete("two", 0).await;
    assert_eq!(stored_parts(&harness).await, named(&[(0, "one"), (2, "old"), (3, "four")]));
    harness.delete("old", 0).await;
    assert_eq!(stored_parts(&harness).await, named(&[(0, "one"), (3, "four")]));
    // A new token under its id does not bring it back.
    harness.delete("one", 0).await;
    harness.insert(token_without_fingerprint("one")).await;
    assert_eq!(stored_parts(&harness).await, named(&[(3, "four")]));
    harness.delete("four", 0).await;
    assert_eq!(stored_parts(&harness).await, vec![]);
}

async fn stored_token_data_of_one_token_is_removed_together(harness: StoreHarness) {
    let twice = vec![
        insert_write(&harness, token_record("one"), Deduplicate::Yes),
        insert_write(&harness, token_record("two"), Deduplicate::Yes),
    ];
    write_with_record(&harness, twice, record_showing(&harness, &[0, 1])).await.unwrap();
    assert_eq!(stored_parts(&harness).await, vec![(0, "one".to_owned()), (1, "one".to_owned())]);
    harness.delete("one", 0).await;
    assert_eq!(stored_parts(&harness).await, vec![]);
}

async fn expired_response_is_removed_with_its_token_data(harness: StoreHarness) {
    let writes = |first, second| {
        vec![
            insert_write(&harness, token_without_fingerprint(first), Deduplicate::No),
            insert_write(&harness, token_without_fingerprint(second), Deduplicate::No),
        ]
    };
    write_with_record(&harness, writes("one", "two"), record_showing(&harness, &[0, 1]))
        .await
        .unwrap();
    harness.advance(scrip_testing::store_harness::DAY);
    // Nobody swept it away, and its parts are not taken for those of the next.
    write_with_record(&harness, writes("three", "four"), record_showing(&harness, &[1]))
        .await
        .unwrap();
    assert_eq!(stored_parts(&harness).await, vec![(1, "four".to_owned())]);
    assert_eq!(harness.store().delete_expired_responses(harness.now()).await.unwrap(), 1);
    write_with_record(&harness, writes("five", "six"), record_showing(&harness, &[0]))
        .await
        .unwrap();
    assert_eq!(stored_parts(&harness).await, vec![(0, "five".to_owned())]);
}

async fn idempotency_record_naming_an_unwritten_token_is_rejected(harness: StoreHarness) {
    let one = vec![insert_write(&harness, token_without_fingerprint("one"), Deduplicate::No)];
    let batched = write_with_record(&harness, one, record_showing(&harness, &[0, 1])).await;
    assert!(matches!(batched, Err(StoreError::Corrupt(_))), "{batched:?}");
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
    let (one, two) = (
        Some(without_cvc(token_without_fingerprint("one"))),
        Some(without_cvc(token_without_fingerprint("two"))),
    );
    let found = find(&harness, &["two", "none", "one", "two"]).await;
    assert_eq!(found, vec![two.clone(), None, one, two]);
    assert_eq!(find(&harness, &[]).await, vec![]);
    let harness = harness.with_callers_swapped();
    assert_eq!(find(&harness, &["one", "two"]).await, vec![None, None]);
}
