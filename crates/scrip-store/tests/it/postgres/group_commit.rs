//! Group commit of one tenant's writes: each write has the same outcome as alone.

pub(crate) mod queued_writes;

use std::sync::Arc;

use scrip_core::{
    card::TokenType,
    change::CommitExtras,
    disclosure::Deduplicate,
    idempotency::ClaimOutcome,
    store::TokenStore,
    token::{StoredToken, StoredTokenIntent, TokenIntentRecord, TokenRecord},
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, CvcChange, InsertToken, TokenBatch, TokenWrite,
        UpdateToken, WriteConflict, WriteOutcome,
    },
    types::{Operation, Permission, StoreError, id::TokenIntentId},
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{
        DAY, DEDUPLICATE, REPORT_EXISTING, StoreHarness, cvc_record, no_events, revised_record,
        token_record, without_cvc,
    },
    vault_harness::{Engine, containers, node_settings},
};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::postgres::group_commit::queued_writes::{
    QueuedWriteFuture, check_consistency, connect_superuser, insert, insert_with_response,
    insertion, newly_written, queue_behind_lock, submit, unique_token, write_among_inserts,
    write_in_one_transaction,
};

#[tokio::test]
async fn independent_inserts_share_one_write_set() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let with_code = |at: u8| {
        let token = StoredToken { record: unique_token(at), cvc: Some(cvc_record("123")) };
        let insert = insertion(&harness, token, REPORT_EXISTING);
        let unlike = insertion(&harness, without_cvc(unique_token(at + 100)), Deduplicate::No);
        let writes = vec![TokenWrite::Insert(insert), TokenWrite::Insert(unlike)];
        let response = harness.idempotency_record([at; 32]);
        submit(&harness, writes, Some(Box::new(move |_| Some(response))))
    };
    for outcome in write_in_one_transaction(&harness, (0..20).map(with_code).collect()).await {
        assert_eq!(
            outcome.unwrap(),
            BatchOutcome::Written(vec![WriteOutcome::New, WriteOutcome::New])
        );
    }
    for at in 0..20 {
        let found = harness.find(&format!("other-{at}")).await.unwrap();
        assert_eq!(found, StoredToken { record: unique_token(at), cvc: Some(cvc_record("123")) });
        let found = harness.find(&format!("other-{}", at + 100)).await.unwrap();
        assert_eq!(found, without_cvc(unique_token(at + 100)));
        let ClaimOutcome::Completed(response) = harness.claim_digest([at; 32]).await else {
            panic!("{at}")
        };
        assert_eq!(response.token_data.len(), 1);
        assert_eq!(response.token_data[0].token.as_str(), format!("other-{at}"));
    }
    assert_eq!(harness.row_counts().await, [40, 20, 40 + count_setup_records(&harness).await]);
    check_consistency(&harness).await;
}

/// Number of records before the first token write.
async fn count_setup_records(harness: &StoreHarness) -> u64 {
    let sql = "SELECT count(*) FROM log_records WHERE operation <> 'create_token'";
    let row = connect_superuser(harness).await.query_one(sql, &[]).await.unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

#[tokio::test]
async fn rejected_write_does_not_affect_others_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(unique_token(1)).await;
    let taken = TokenRecord { fingerprint: None, ..unique_token(1) };
    let unlike =
        |at| TokenWrite::Insert(insertion(&harness, without_cvc(unique_token(at)), DEDUPLICATE));
    let of_taken =
        || TokenWrite::Insert(insertion(&harness, without_cvc(taken.clone()), Deduplicate::No));
    let same = TokenRecord { id: unique_token(9).id, ..unique_token(1) };
    let reported = insertion(&harness, without_cvc(same), REPORT_EXISTING);
    let stale = UpdateToken {
        permit: harness.permit(Permission::TokenUpdate),
        token: TokenRecord { revision: 7, ..unique_token(1) },
        cvc: CvcChange::Keep,
        intent: None,
        deduplicate: Deduplicate::No,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::UpdateToken),
        events: no_events(),
    };
    let mut gone = insertion(&harness, without_cvc(unique_token(8)), Deduplicate::No);
    gone.intent = Some(TokenIntentId(Uuid::from_bytes([9; 16])));
    let writes = vec![
        submit(&harness, vec![of_taken()], None),
        // Writes a token and its record before it finds the conflict.
        submit(&harness, vec![unlike(2), of_taken(), unlike(3)], None),
        submit(&harness, vec![TokenWrite::Insert(reported)], None),
        submit(&harness, vec![unlike(4), TokenWrite::Update(stale)], None),
        submit(&harness, vec![unlike(5), TokenWrite::Insert(gone)], None),
    ];
    let outcomes = write_among_inserts(&harness, writes).await;
    let rejected = |at, obstacle| BatchOutcome::Rejected(vec![(at, obstacle)]);
    let expected = [
        rejected(0, WriteConflict::IdTaken),
        rejected(1, WriteConflict::IdTaken),
        rejected(0, WriteConflict::Duplicate(Box::new(without_cvc(unique_token(1))))),
        rejected(1, WriteConflict::Stale),
        rejected(1, WriteConflict::IntentMissing),
    ];
    for (outcome, expected) in outcomes.into_iter().zip(expected) {
        assert_eq!(outcome.unwrap(), expected);
    }
    for at in [2, 3, 4, 5, 8, 9] {
        assert_eq!(harness.find(&format!("other-{at}")).await, None, "{at}");
    }
    check_consistency(&harness).await;
}

#[tokio::test]
async fn equal_cards_in_one_group_become_one_token() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let same = |id: &str| TokenRecord { id: token_record(id).id, ..unique_token(1) };
    let twice = |a: &str, b: &str| {
        let insert =
            |id| TokenWrite::Insert(insertion(&harness, without_cvc(same(id)), DEDUPLICATE));
        submit(&harness, vec![insert(a), insert(b)], None)
    };
    let writes = vec![
        insert(&harness, same("first")),
        insert(&harness, same("second")),
        twice("third", "fourth"),
    ];
    let mut outcomes = write_among_inserts(&harness, writes).await.into_iter().map(Result::unwrap);
    let first = || WriteOutcome::Existing(Box::new(without_cvc(same("first"))));
    assert_eq!(outcomes.next().unwrap(), newly_written());
    assert_eq!(outcomes.next().unwrap(), BatchOutcome::Written(vec![first()]));
    assert_eq!(outcomes.next().unwrap(), BatchOutcome::Written(vec![first(), first()]));
    // A token of an earlier transaction is found too. A write without deduplication finds none.
    let unlooked = insertion(&harness, without_cvc(same("sixth")), Deduplicate::No);
    let unlooked = submit(&harness, vec![TokenWrite::Insert(unlooked)], None);
    let writes = vec![insert(&harness, same("fifth")), unlooked];
    let mut outcomes =
        write_in_one_transaction(&harness, writes).await.into_iter().map(Result::unwrap);
    assert_eq!(outcomes.next().unwrap(), BatchOutcome::Written(vec![first()]));
    assert_eq!(outcomes.next().unwrap(), newly_written());
    check_consistency(&harness).await;
}

/// Later writes of the group find a token that was inserted without deduplication.
#[tokio::test]
async fn insert_without_deduplication_is_found_by_later_duplicates_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let same = |id: &str| TokenRecord { id: token_record(id).id, ..unique_token(1) };
    let unlooking = |id: &str| {
        let insert = insertion(&harness, without_cvc(same(id)), Deduplicate::No);
        submit(&harness, vec![TokenWrite::Insert(insert)], None)
    };
    let writes = vec![unlooking("first"), unlooking("second"), insert(&harness, same("third"))];
    let mut outcomes = write_among_inserts(&harness, writes).await.into_iter().map(Result::unwrap);
    assert_eq!(outcomes.next().unwrap(), newly_written());
    assert_eq!(outcomes.next().unwrap(), newly_written());
    let first = WriteOutcome::Existing(Box::new(without_cvc(same("first"))));
    assert_eq!(outcomes.next().unwrap(), BatchOutcome::Written(vec![first]));
    check_consistency(&harness).await;
}

#[tokio::test]
async fn token_id_is_given_once_within_a_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let mut ends = TokenRecord { expires_at: Some(harness.now().plus(DAY)), ..unique_token(1) };
    harness.insert(ends.clone()).await;
    harness.advance(DAY);
    ends.expires_at = None;
    let again = || insert(&harness, TokenRecord { fingerprint: None, ..ends.clone() });
    let outcomes = write_among_inserts(&harness, vec![again(), again()]).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    // The former token has expired. Either of the two writes may come first.
    assert!(outcomes.contains(&newly_written()), "{outcomes:?}");
    assert!(
        outcomes.contains(&BatchOutcome::Rejected(vec![(0, WriteConflict::IdTaken)])),
        "{outcomes:?}"
    );
    check_consistency(&harness).await;
}

#[tokio::test]
async fn idempotency_key_has_one_effect_within_a_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let writes = vec![
        insert_with_response(&harness, unique_token(1), [7; 32]),
        insert_with_response(&harness, unique_token(2), [7; 32]),
    ];
    let outcomes = write_among_inserts(&harness, writes).await;
    assert!(matches!(&outcomes[..], [Ok(_), Err(StoreError::AlreadyCompleted)]), "{outcomes:?}");
    assert!(harness.find("other-1").await.is_some());
    assert_eq!(harness.find("other-2").await, None);
    check_consistency(&harness).await;
}

/// PostgreSQL reports the conflict when the rows of all writes are already sent.
#[tokio::test]
async fn request_completed_by_another_node_fails_alone_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let node = PostgresStore::open(node_settings(harness.vault_harness.database())).await.unwrap();
    let there = insertion(&harness, without_cvc(unique_token(1)), Deduplicate::No);
    let response = harness.idempotency_record([7; 32]);
    let render: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    let batch = TokenBatch { writes: vec![TokenWrite::Insert(there)], build_record: Some(render) };
    node.write_tokens(harness.lookup_permit(), batch).await.unwrap();
    let writes = vec![
        insert_with_response(&harness, unique_token(2), [7; 32]),
        insert_with_response(&harness, unique_token(3), [8; 32]),
        insert(&harness, TokenRecord { id: token_record("same").id, ..unique_token(1) }),
    ];
    let outcomes = write_among_inserts(&harness, writes).await;
    let existing =
        BatchOutcome::Written(vec![WriteOutcome::Existing(Box::new(without_cvc(unique_token(1))))]);
    let [Err(StoreError::AlreadyCompleted), Ok(one), Ok(two)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((one, two), (&newly_written(), &existing));
    assert_eq!(harness.find("other-2").await, None);
    assert!(matches!(harness.claim_digest([8; 32]).await, ClaimOutcome::Completed(_)));
    // A day later the idempotency record has expired.
    harness.advance(DAY);
    let outcomes = write_in_one_transaction(
        &harness,
        vec![insert_with_response(&harness, unique_token(2), [7; 32])],
    )
    .await;
    assert!(matches!(&outcomes[..], [Ok(_)]), "{outcomes:?}");
    assert!(harness.find("other-2").await.is_some());
    check_consistency(&harness).await;
}

#[tokio::test]
async fn error_in_one_write_does_not_affect_others_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let permit = harness.stranger.permit(Permission::TokenCreate, &containers(&["/"])).unwrap();
    let foreign = InsertToken {
        permit,
        ..insertion(&harness, without_cvc(unique_token(2)), Deduplicate::No)
    };
    let unlike = insertion(&harness, without_cvc(unique_token(1)), Deduplicate::No);
    let foreign = vec![TokenWrite::Insert(unlike), TokenWrite::Insert(foreign)];
    let panics = insertion(&harness, without_cvc(unique_token(3)), Deduplicate::No);
    let panics = vec![TokenWrite::Insert(panics)];
    let render: BuildIdempotencyRecord = Box::new(|_| panic!("intended by the test"));
    // An idempotency record that refers to a token that the write does not contain.
    let shows_none = insertion(&harness, without_cvc(unique_token(4)), Deduplicate::No);
    let mut response = harness.idempotency_record([4; 32]);
    response.token_data[0].write_index = 5;
    let shows: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    let writes = vec![
        submit(&harness, foreign, None),
        submit(&harness, panics, Some(render)),
        submit(&harness, vec![TokenWrite::Insert(shows_none)], Some(shows)),
    ];
    let outcomes = write_among_inserts(&harness, writes).await;
    let corrupt = |it: &Result<_, _>| matches!(it, Err(StoreError::Corrupt(_)));
    assert!(corrupt(&outcomes[0]) && corrupt(&outcomes[2]), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(StoreError::Unavailable(_))), "{outcomes:?}");
    for at in 1..5 {
        assert_eq!(harness.find(&format!("other-{at}")).await, None, "{at}");
    }
    check_consistency(&harness).await;
}

/// A client that disconnects does not affect the others, and its queued write is still done.
#[tokio::test]
async fn dropped_client_does_not_affect_others_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&harness, unique_token(at))).collect();
    let (holder, mut waiting) = queue_behind_lock(&harness, all).await;
    // The first write started the drain.
    drop(waiting.remove(0));
    drop(waiting.remove(9));
    holder.batch_execute("COMMIT").await.unwrap();
    for write in waiting {
        assert_eq!(write.await.unwrap(), newly_written());
    }
    for at in 0..20 {
        assert!(harness.find(&format!("other-{at}")).await.is_some(), "{at}");
    }
    assert_eq!(insert(&harness, unique_token(20)).await.unwrap(), newly_written());
    check_consistency(&harness).await;
}

/// All writes of the group fail, and the next write succeeds.
#[tokio::test]
async fn terminated_transaction_fails_every_write_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&harness, unique_token(at))).collect();
    let (holder, mut waiting) = queue_behind_lock(&harness, all).await;
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let first = &mut waiting[0];
    // Polls the writer until it waits for the lock.
    loop {
        tokio::select! {
            biased;
            outcome = first.as_mut() => {
                assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
                break;
            }
            _ = terminate_waiting_backends(&holder, ended) => (),
        }
    }
    for write in waiting.into_iter().skip(1) {
        let outcome = write.await;
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    }
    holder.batch_execute("COMMIT").await.unwrap();
    assert_eq!(insert(&harness, unique_token(0)).await.unwrap(), newly_written());
    assert_eq!(harness.row_counts().await[0], 1);
    check_consistency(&harness).await;
}

async fn terminate_waiting_backends(holder: &Client, sql: &str) {
    holder.query(sql, &[]).await.unwrap();
}

#[tokio::test]
async fn token_intents_share_a_group_with_tokens() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let intent = |at: u8| {
        let record = TokenIntentRecord {
            id: TokenIntentId(Uuid::from_bytes([at; 16])),
            token_type: TokenType::Token,
            fingerprint: Some(Fingerprint([at; 32])),
            containers: token_record("x-1").containers,
            created_by: harness.caller.application(),
            created_at: harness.now(),
            expires_at: harness.now().plus(DAY),
            body: Sealed::from_stored(vec![at]),
        };
        StoredTokenIntent { record, cvc: (at < 4).then(|| cvc_record("123")) }
    };
    let write = |at: u8| -> QueuedWriteFuture<'_> {
        let audit = harness.audit(Operation::CreateTokenIntent);
        let response = scrip_core::idempotency::IdempotencyRecord {
            token_data: vec![],
            ..harness.idempotency_record([at; 32])
        };
        let entity = intent(at).record.id.to_string();
        let idempotency = (at != 5).then_some(response);
        let written = CommitExtras { audit, entity, idempotency, deliveries: Vec::new() };
        let inserted =
            harness.store().insert_token_intent(harness.lookup_permit(), intent(at), written);
        Box::pin(async move { inserted.await.map(|()| BatchOutcome::Written(vec![])) })
    };
    // The sixth token has the id of the first one.
    let outcomes = write_among_inserts(&harness, [1, 2, 3, 4, 5, 1].map(write).into()).await;
    let (same, written) = outcomes.split_last().unwrap();
    assert!(written.iter().all(Result::is_ok), "{outcomes:?}");
    assert!(same.is_err(), "{outcomes:?}");
    for at in 1..6 {
        let lookup = harness.lookup_permit();
        let id = intent(at).record.id;
        let found = harness.store().find_token_intent(lookup, id, harness.now()).await.unwrap();
        assert_eq!(found, Some(intent(at)));
        assert_eq!(
            matches!(harness.claim_digest([at; 32]).await, ClaimOutcome::Completed(_)),
            at != 5
        );
    }
    check_consistency(&harness).await;
}

/// An update is part of the group, in its own savepoint.
#[tokio::test]
async fn updates_share_a_group_with_inserts() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(unique_token(1)).await;
    let update = UpdateToken {
        permit: harness.permit(Permission::TokenUpdate),
        token: revised_record(&unique_token(1)),
        cvc: CvcChange::Replace(cvc_record("123")),
        intent: None,
        deduplicate: DEDUPLICATE,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::UpdateToken),
        events: no_events(),
    };
    let outcomes = write_among_inserts(
        &harness,
        vec![submit(&harness, vec![TokenWrite::Update(update)], None)],
    );
    let outcomes = outcomes.await;
    assert_eq!(outcomes[0].as_ref().unwrap(), &BatchOutcome::Written(vec![WriteOutcome::Updated]));
    let found = harness.find("other-1").await.unwrap();
    assert_eq!(
        found,
        StoredToken { record: revised_record(&unique_token(1)), cvc: Some(cvc_record("123")) }
    );
    check_consistency(&harness).await;
}

/// More writes than fit into one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_inserts_are_written_in_few_transactions() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let store = Arc::clone(&harness.vault_harness.vault.store);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..200_u8 {
        let insert = insertion(&harness, without_cvc(unique_token(at)), DEDUPLICATE);
        let batch = TokenBatch { writes: vec![TokenWrite::Insert(insert)], build_record: None };
        let (store, lookup) = (Arc::clone(&store), harness.lookup_permit());
        tasks.spawn(async move { store.write_tokens(lookup, batch).await.unwrap() });
    }
    assert!(tasks.join_all().await.into_iter().all(|it| it == newly_written()));
    let log = harness.store().metrics().writers.remove(0);
    assert_eq!((log.log, log.batch_sizes.sum, log.queued), ("vault", 200, 0));
    assert!(log.batch_sizes.count() >= 4, "no batch may have more than 64 writes");
    check_consistency(&harness).await;
}
