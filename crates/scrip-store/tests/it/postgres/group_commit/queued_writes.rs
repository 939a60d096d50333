//! Writes of one tenant that wait for its lock, so that they are committed as one group.

use std::{future::poll_fn, pin::Pin, task::Poll};

use scrip_core::{
    audit::LogKind,
    disclosure::Deduplicate,
    token::{StoredToken, TokenRecord},
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, InsertToken, TokenBatch, TokenWrite, WriteOutcome,
    },
    types::{Operation, Permission, StoreError},
};
use scrip_seal::Fingerprint;
use scrip_testing::store_harness::{
    DEDUPLICATE, StoreHarness, no_events, token_record, without_cvc,
};
use tokio_postgres::{Client, NoTls};

use crate::postgres::nodes::check_chain;

pub(crate) type QueuedWriteFuture<'a> =
    Pin<Box<dyn Future<Output = Result<BatchOutcome, StoreError>> + Send + 'a>>;

/// A connection that does not belong to a node.
pub(crate) async fn connect_superuser(harness: &StoreHarness) -> Client {
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// Queues the writes in this order while another transaction holds the tenant's lock, so that no
/// batch starts before the last write is queued.
pub(crate) async fn queue_behind_lock<'a>(
    harness: &StoreHarness,
    writes: Vec<QueuedWriteFuture<'a>>,
) -> (Client, Vec<QueuedWriteFuture<'a>>) {
    let holder = connect_superuser(harness).await;
    holder
        .batch_execute("BEGIN; UPDATE tenant_locks SET last_token_number = last_token_number")
        .await
        .unwrap();
    let mut waiting = Vec::new();
    for mut write in writes {
        let polled = poll_fn(|it| Poll::Ready(write.as_mut().poll(it)));
        assert!(polled.await.is_pending(), "the lock should block all writes");
        waiting.push(write);
    }
    (holder, waiting)
}

/// Returns the outcomes of the writes, which share one transaction.
pub(crate) async fn write_in_one_transaction(
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
    assert_eq!(
        transactions(),
        (before.0 + 1, before.1 + size),
        "the writes should share one transaction"
    );
    outcomes
}

/// A token without duplicates.
pub(crate) fn unique_token(at: u8) -> TokenRecord {
    TokenRecord { fingerprint: Some(Fingerprint([at; 32])), ..token_record(&format!("other-{at}")) }
}

pub(crate) fn insertion(
    harness: &StoreHarness,
    token: StoredToken,
    deduplicate: Deduplicate,
) -> InsertToken {
    let permit = harness.permit(Permission::TokenCreate);
    let audit = harness.audit(Operation::CreateToken);
    InsertToken { permit, token, intent: None, deduplicate, audit, events: no_events() }
}

pub(crate) fn submit<'a>(
    harness: &'a StoreHarness,
    writes: Vec<TokenWrite>,
    render: Option<BuildIdempotencyRecord>,
) -> QueuedWriteFuture<'a> {
    harness
        .store()
        .write_tokens(harness.lookup_permit(), TokenBatch { writes, build_record: render })
}

pub(crate) fn insert(harness: &StoreHarness, record: TokenRecord) -> QueuedWriteFuture<'_> {
    let insert = insertion(harness, without_cvc(record), DEDUPLICATE);
    submit(harness, vec![TokenWrite::Insert(insert)], None)
}

pub(crate) fn insert_with_response(
    harness: &StoreHarness,
    record: TokenRecord,
    digest: [u8; 32],
) -> QueuedWriteFuture<'_> {
    let response = harness.idempotency_record(digest);
    let insert = insertion(harness, without_cvc(record), DEDUPLICATE);
    let render: BuildIdempotencyRecord = Box::new(move |_| Some(response));
    submit(harness, vec![TokenWrite::Insert(insert)], Some(render))
}

/// Adds unrelated inserts before and after the writes.
fn surround_with_inserts<'a>(
    harness: &'a StoreHarness,
    writes: Vec<QueuedWriteFuture<'a>>,
) -> Vec<QueuedWriteFuture<'a>> {
    let mut all: Vec<_> = (100..108).map(|at| insert(harness, unique_token(at))).collect();
    all.extend(writes);
    all.extend((108..112).map(|at| insert(harness, unique_token(at))));
    all
}

/// Returns the outcomes of the writes; the surrounding inserts must be new.
pub(crate) async fn write_among_inserts(
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
        (SELECT count(*) FROM log_records WHERE outcome = 'created' AND operation = 'create_token')
            - (SELECT coalesce(sum(created), 0) FROM usage_months)";

/// Checks that the usage counters match the rows, and that the chain is valid.
pub(crate) async fn check_consistency(harness: &StoreHarness) {
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
    assert!(row.is_ok(), "usage counters do not match the rows");
    check_chain(harness, LogKind::Audit).await;
}

pub(crate) fn newly_written() -> BatchOutcome {
    BatchOutcome::Written(vec![WriteOutcome::New])
}
