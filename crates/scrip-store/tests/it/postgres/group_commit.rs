//! Writes of one tenant that share a transaction: each is as if it were alone.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use scrip_core::{
    audit::{LogKind, Operation},
    id::TokenIntentId,
    idempotency::ClaimOutcome,
    policy::Permission,
    store::{CommitExtras, StoreError, TokenStore},
    token::{
        BatchOutcome, BuildIdempotencyRecord, CvcChange, Deduplicate, InsertToken, StoredToken,
        StoredTokenIntent, TokenBatch, TokenIntentRecord, TokenRecord, TokenType, TokenWrite,
        UpdateToken, WriteConflict, WriteOutcome,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{DAY, StoreHarness, cvc_record, revised_record, token_record, without_cvc},
    vault_harness::{Engine, containers, node_settings},
};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::postgres::nodes::check_chain;

type QueuedWriteFuture<'a> =
    Pin<Box<dyn Future<Output = Result<BatchOutcome, StoreError>> + Send + 'a>>;

/// Somebody who is no node.
async fn connect_superuser(harness: &StoreHarness) -> Client {
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// All of these wait while somebody else has the tenant: they are handed over in this order, and by
/// nobody who could have begun before the last.
async fn queue_behind_lock<'a>(
    harness: &StoreHarness,
    writes: Vec<QueuedWriteFuture<'a>>,
) -> (Client, Vec<QueuedWriteFuture<'a>>) {
    let holder = connect_superuser(harness).await;
    holder.batch_execute("BEGIN; UPDATE lanes SET last_token = last_token").await.unwrap();
    let mut waiting = Vec::new();
    for mut write in writes {
        let polled = poll_fn(|it| Poll::Ready(write.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "nobody could write");
        waiting.push(write);
    }
    (holder, waiting)
}

/// What became of each, written by one transaction.
async fn write_in_one_transaction(
    harness: &StoreHarness,
    writes: Vec<QueuedWriteFuture<'_>>,
) -> Vec<Result<BatchOutcome, StoreError>> {
    let transactions = || {
        let log = harness.store().metrics().writers.remove(0);
        (log.batch_sizes.count(), log.batch_sizes.sum)
    };
    let size = u64::try_from(writes.len()).unwrap();
    let before = transactions();
    let (holder, waiting) = queue_behind_lock(harness, writes).await;
    holder.batch_execute("COMMIT").await.unwrap();
    let mut outcomes = Vec::new();
    for write in waiting {
        outcomes.push(write.await);
    }
    assert_eq!(transactions(), (before.0 + 1, before.1 + size), "they shared one");
    outcomes
}

/// A token that nobody else has.
fn unique_token(at: u8) -> TokenRecord {
    TokenRecord { fingerprint: Some(Fingerprint([at; 32])), ..token_record(&format!("other-{at}")) }
}

fn insertion(harness: &StoreHarness, token: StoredToken, deduplicate: Deduplicate) -> InsertToken {
    let permit = harness.permit(Permission::TokenCreate);
    let audit = harness.audit(Operation::CreateToken);
    InsertToken { permit, token, intent: None, deduplicate, audit }
}

fn submit<'a>(
    harness: &'a StoreHarness,
    writes: Vec<TokenWrite>,
    render: Option<BuildIdempotencyRecord>,
) -> QueuedWriteFuture<'a> {
    harness
        .store()
        .write_tokens(harness.lookup_permit(), TokenBatch { writes, build_record: render })
}

fn insert(harness: &StoreHarness, record: TokenRecord) -> QueuedWriteFuture<'_> {
    let insert = insertion(harness, without_cvc(record), Deduplicate::Yes);
    submit(harness, vec![TokenWrite::Insert(insert)], None)
}

fn insert_with_response(
    harness: &StoreHarness,
    record: TokenRecord,
    digest: [u8; 32],
) -> QueuedWriteFuture<'_> {
    let response = harness.idempotency_record(digest);
    let insert = insertion(harness, without_cvc(record), Deduplicate::Yes);
    let render: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    submit(harness, vec![TokenWrite::Insert(insert)], Some(render))
}

/// Some that have nothing to do with anybody, before and behind.
fn surround_with_inserts<'a>(
    harness: &'a StoreHarness,
    writes: Vec<QueuedWriteFuture<'a>>,
) -> Vec<QueuedWriteFuture<'a>> {
    let mut all: Vec<_> = (100..108).map(|at| insert(harness, unique_token(at))).collect();
    all.extend(writes);
    all.extend((108..112).map(|at| insert(harness, unique_token(at))));
    all
}

/// What became of those among; the others are new.
async fn write_among_inserts(
    harness: &StoreHarness,
    writes: Vec<QueuedWriteFuture<'_>>,
) -> Vec<Result<BatchOutcome, StoreError>> {
    let mut outcomes =
        write_in_one_transaction(harness, surround_with_inserts(harness, writes)).await;
    let ours = outcomes.drain(8..outcomes.len() - 4).collect();
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), BatchOutcome::Written(vec![WriteOutcome::New]));
    }
    for at in 100..112 {
        assert!(harness.find(&format!("other-{at}")).await.is_some(), "{at}");
    }
    ours
}

const USAGE_DIFFERENCES: &str = "
    SELECT (SELECT count(*) FROM tokens) - (SELECT coalesce(sum(count), 0) FROM usage_types),
        (SELECT count(*) FROM records WHERE outcome = 'created' AND operation = 'create_token')
            - (SELECT coalesce(sum(created), 0) FROM usage_months)";

/// Counts say what rows there are, and the chain is whole.
async fn check_consistency(harness: &StoreHarness) {
    let row = connect_superuser(harness)
        .await
        .query_one(
            &format!(
                "SELECT * FROM ({USAGE_DIFFERENCES}) AS it (a, b) \
        WHERE a = 0 AND b = 0"
            ),
            &[],
        )
        .await;
    assert!(row.is_ok(), "counts are not what rows there are");
    check_chain(harness, LogKind::Audit).await;
}

fn newly_written() -> BatchOutcome {
    BatchOutcome::Written(vec![WriteOutcome::New])
}

#[tokio::test]
async fn independent_inserts_share_one_write_set() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let with_code = |at: u8| {
        let token = StoredToken { record: unique_token(at), cvc: Some(cvc_record("123")) };
        let insert = insertion(&harness, token, Deduplicate::ReportExisting);
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

/// Records that are there before anybody wrote a token.
async fn count_setup_records(harness: &StoreHarness) -> u64 {
    let sql = "SELECT count(*) FROM records WHERE operation <> 'create_token'";
    let row = connect_superuser(harness).await.query_one(sql, &[]).await.unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

#[tokio::test]
async fn rejected_write_does_not_affect_others_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(unique_token(1)).await;
    let taken = TokenRecord { fingerprint: None, ..unique_token(1) };
    let unlike = |at| {
        TokenWrite::Insert(insertion(&harness, without_cvc(unique_token(at)), Deduplicate::Yes))
    };
    let of_taken =
        || TokenWrite::Insert(insertion(&harness, without_cvc(taken.clone()), Deduplicate::No));
    let same = TokenRecord { id: unique_token(9).id, ..unique_token(1) };
    let told = insertion(&harness, without_cvc(same), Deduplicate::ReportExisting);
    let stale = UpdateToken {
        permit: harness.permit(Permission::TokenUpdate),
        token: TokenRecord { revision: 7, ..unique_token(1) },
        cvc: CvcChange::Keep,
        intent: None,
        deduplicate: Deduplicate::No,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::UpdateToken),
    };
    let mut gone = insertion(&harness, without_cvc(unique_token(8)), Deduplicate::No);
    gone.intent = Some(TokenIntentId(Uuid::from_bytes([9; 16])));
    let writes = vec![
        submit(&harness, vec![of_taken()], None),
        // Writes a token and its record before it meets one that is there.
        submit(&harness, vec![unlike(2), of_taken(), unlike(3)], None),
        submit(&harness, vec![TokenWrite::Insert(told)], None),
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
            |id| TokenWrite::Insert(insertion(&harness, without_cvc(same(id)), Deduplicate::Yes));
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
    // One of an earlier transaction is found as well; and one that nobody has to look for is not.
    let unlooked = insertion(&harness, without_cvc(same("sixth")), Deduplicate::No);
    let unlooked = submit(&harness, vec![TokenWrite::Insert(unlooked)], None);
    let writes = vec![insert(&harness, same("fifth")), unlooked];
    let mut outcomes =
        write_in_one_transaction(&harness, writes).await.into_iter().map(Result::unwrap);
    assert_eq!(outcomes.next().unwrap(), BatchOutcome::Written(vec![first()]));
    assert_eq!(outcomes.next().unwrap(), newly_written());
    check_consistency(&harness).await;
}

/// One that nobody has to look for is found by those behind it.
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
    // The one that had it has expired. Which of the two comes first is open.
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

/// The engine finds it when the rows of all of them are on their way.
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
    // A day later it is as if there had been no answer.
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
    let render: BuildIdempotencyRecord = Box::new(|_| panic!("this is what the test is about"));
    // An answer of a token that it has not written.
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

/// Whoever goes away takes nobody with him; what was handed over is done.
#[tokio::test]
async fn dropped_client_does_not_affect_others_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&harness, unique_token(at))).collect();
    let (holder, mut waiting) = queue_behind_lock(&harness, all).await;
    // The first is the one for whose sake somebody began to write.
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

/// All of them hear so, and the next is written.
#[tokio::test]
async fn terminated_transaction_fails_every_write_in_its_group() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let all = (0..20).map(|at| insert(&harness, unique_token(at))).collect();
    let (holder, mut waiting) = queue_behind_lock(&harness, all).await;
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let first = &mut waiting[0];
    // Somebody has to let the one who writes go on, as far as to where it waits.
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
        let written = CommitExtras { audit, entity, idempotency: (at != 5).then_some(response) };
        let inserted =
            harness.store().insert_token_intent(harness.lookup_permit(), intent(at), written);
        Box::pin(async move { inserted.await.map(|()| BatchOutcome::Written(vec![])) })
    };
    // The sixth has the first one's id.
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

/// An update goes with the others, behind a savepoint of its own.
#[tokio::test]
async fn updates_share_a_group_with_inserts() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(unique_token(1)).await;
    let update = UpdateToken {
        permit: harness.permit(Permission::TokenUpdate),
        token: revised_record(&unique_token(1)),
        cvc: CvcChange::Replace(cvc_record("123")),
        intent: None,
        deduplicate: Deduplicate::Yes,
        reject_if_in_session_at: None,
        audit: harness.audit(Operation::UpdateToken),
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

/// More than go into one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_inserts_are_written_in_few_transactions() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let store = Arc::clone(&harness.vault_harness.vault.store);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..200_u8 {
        let insert = insertion(&harness, without_cvc(unique_token(at)), Deduplicate::Yes);
        let batch = TokenBatch { writes: vec![TokenWrite::Insert(insert)], build_record: None };
        let (store, lookup) = (Arc::clone(&store), harness.lookup_permit());
        tasks.spawn(async move { store.write_tokens(lookup, batch).await.unwrap() });
    }
    assert!(tasks.join_all().await.into_iter().all(|it| it == newly_written()));
    let log = harness.store().metrics().writers.remove(0);
    assert_eq!((log.log, log.batch_sizes.sum, log.queued), ("vault", 200, 0));
    assert!(log.batch_sizes.count() >= 4, "none has more than 64");
    check_consistency(&harness).await;
}
