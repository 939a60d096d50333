//! Waiting for the lock of one tenant does not block other tenants.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    disclosure::Deduplicate,
    operations::tenants::delete_tenant::delete_tenant,
    policy::PolicyPermit,
    read_log::{ReadLogBatch, ReadLogEntry},
    store::Store,
    token::TokenRecord,
    token_batch::{BatchOutcome, DeleteToken, InsertToken, TokenBatch, TokenWrite},
    types::{Operation, Permission, StoreError, time::Month},
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{
        DAY, DEDUPLICATE, StoreHarness, UpdateOutcome, no_events, revised_record, token_record,
        without_cvc,
    },
    vault_harness::{Engine, node_settings, token_id},
};
use tokio::{task::JoinSet, time::timeout};
use tokio_postgres::Client;

use crate::postgres::group_commit::queued_writes::connect_superuser;

/// Longer than any step of these tests takes, even on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until this many backends wait for a lock.
async fn wait_for_lock_waiters(client: &Client, expected: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let wait = async {
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, wait).await.unwrap();
}

/// Locks the tenant of the harness until the returned client ends its transaction.
async fn hold_tenant_lock(harness: &StoreHarness, log: &str) -> Client {
    let lock_holder = connect_superuser(harness).await;
    let tenant = harness.caller.tenant().id;
    let lock_statement = format!(
        "BEGIN; UPDATE tenant_locks SET last_token_number = last_token_number WHERE tenant = '{tenant}' AND log = '{log}'"
    );
    lock_holder.batch_execute(&lock_statement).await.unwrap();
    lock_holder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_waiting_for_one_tenant_leave_connections_to_others() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let node =
        PostgresStore::open(node_settings(harness.vault_harness.database()).with_connections(2))
            .await
            .unwrap();
    let node: Arc<dyn Store> = Arc::new(node);
    let lock_holder = hold_tenant_lock(&harness, "audit").await;
    let mut deletes = JoinSet::new();
    for _ in 0..12 {
        let audit = harness.audit(Operation::DeleteToken);
        let delete =
            DeleteToken { id: token_id("one"), revision: 0, audit, deliveries: Vec::new() };
        let (node, permit) = (Arc::clone(&node), harness.permit(Permission::TokenDelete));
        deletes.spawn(async move { node.delete_token(permit, delete).await });
    }
    wait_for_lock_waiters(&lock_holder, 1).await;
    // Time for all deletes to reach the lock.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let read = async {
        let lookup = harness.stranger.permit_lookup(Permission::TokenRead).unwrap();
        node.find_token(lookup, &token_id("one"), harness.now()).await
    };
    // Shorter than the lock timeout.
    let read = timeout(Duration::from_secs(4), read).await;
    assert!(matches!(read, Ok(Ok(None))), "{read:?}");
    lock_holder.batch_execute("COMMIT").await.unwrap();
    while let Some(outcome) = deletes.join_next().await {
        assert!(matches!(outcome.unwrap(), Ok(_) | Err(StoreError::Busy)));
    }
    assert_eq!(harness.find("one").await, None);
}

/// Revoked rights take effect even when requests use all connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_loads_while_all_request_connections_are_busy() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let node =
        PostgresStore::open(node_settings(harness.vault_harness.database()).with_connections(1))
            .await
            .unwrap();
    let node: Arc<dyn Store> = Arc::new(node);
    let lock_holder = connect_superuser(&harness).await;
    // An unprepared statement waits for longer than the lock timeout.
    lock_holder.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let mut reads = JoinSet::new();
    for _ in 0..4 {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let (node, now) = (Arc::clone(&node), harness.now());
        reads.spawn(async move { node.find_token(lookup, &token_id("one"), now).await });
    }
    wait_for_lock_waiters(&lock_holder, 1).await;
    let load_directory = async {
        let version = node.directory_version().await.unwrap();
        (version, node.load_directory().await.unwrap().version)
    };
    let (version, loaded_version) = timeout(Duration::from_secs(4), load_directory).await.unwrap();
    assert_eq!(version, loaded_version);
    lock_holder.batch_execute("COMMIT").await.unwrap();
}

/// The client of a write does not wait for the activity record, which is written later.
#[tokio::test]
async fn write_does_not_wait_for_its_activity_record() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let flush_activity = async || {
        let (tenant, audit) = (harness.caller.tenant().id, harness.audit(Operation::GetToken));
        let entries = vec![ReadLogEntry::new("", "empty")];
        let batch = ReadLogBatch { tenant, audit, entries, deliveries: Vec::new() };
        harness.store().append_read_log(batch).await.unwrap();
    };
    harness.insert(token_record("one")).await;
    flush_activity().await;
    harness.advance(DAY * 31);
    let lock_holder = hold_tenant_lock(&harness, "read").await;
    let outcome = harness
        .update(harness.new_update(revised_record(&token_record("one")), Deduplicate::No))
        .await;
    assert_eq!(outcome, UpdateOutcome::Done);
    lock_holder.batch_execute("COMMIT").await.unwrap();
    // Activity that was queued before this call is written with it.
    flush_activity().await;
    let permit = PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()));
    let usage =
        harness.store().find_usage(&permit, Month::from_timestamp(harness.now())).await.unwrap();
    assert_eq!(usage.active, 1);
}

/// A tenant with many individual writes is not locked until all of them are done.
#[tokio::test]
async fn individual_writes_per_transaction_are_limited() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let lock_holder = hold_tenant_lock(&harness, "audit").await;
    let transaction_counts = || {
        let log = harness.store().metrics().writers.remove(0);
        (log.batch_sizes.count(), log.batch_sizes.sum)
    };
    let counts_before = transaction_counts();
    let duplicate_insert = |number: usize| {
        let token = without_cvc(TokenRecord {
            id: token_id(&format!("id-{number}")),
            ..token_record("one")
        });
        let permit = harness.permit(Permission::TokenCreate);
        let audit = harness.audit(Operation::CreateToken);
        let deduplicate = DEDUPLICATE;
        TokenWrite::Insert(InsertToken {
            permit,
            token,
            intent: None,
            deduplicate,
            audit,
            events: no_events(),
        })
    };
    let mut writes = JoinSet::new();
    for batch_number in 0..5 {
        let batch = TokenBatch {
            writes: (batch_number * 50..batch_number * 50 + 50).map(duplicate_insert).collect(),
            build_record: None,
        };
        let (store, lookup) =
            (Arc::clone(&harness.vault_harness.vault.store), harness.lookup_permit());
        writes.spawn(async move { store.write_tokens(lookup, batch).await });
    }
    wait_for_lock_waiters(&lock_holder, 1).await;
    lock_holder.batch_execute("COMMIT").await.unwrap();
    for outcome in writes.join_all().await {
        assert!(matches!(outcome, Ok(BatchOutcome::Written(it)) if it.len() == 50));
    }
    // All five batches were queued before the first transaction: three batches share the first
    // transaction, and two share the second.
    assert_eq!(transaction_counts(), (counts_before.0 + 2, counts_before.1 + 5));
    assert_eq!(harness.row_counts().await[0], 1);
}

/// The number of records per transaction of the read log is limited.
#[tokio::test]
async fn read_log_records_per_transaction_are_limited() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let record_reads = async |batch_count: usize, record_count: usize| {
        let transaction_counts = || {
            let log = harness.store().metrics().writers.remove(1);
            (log.batch_sizes.count(), log.batch_sizes.sum)
        };
        let counts_before = transaction_counts();
        let mut tasks = JoinSet::new();
        for _ in 0..batch_count {
            let (tenant, audit) = (harness.caller.tenant().id, harness.audit(Operation::GetToken));
            let entries = (0..record_count).map(|_| ReadLogEntry::new("one", "read")).collect();
            let store = Arc::clone(&harness.vault_harness.vault.store);
            let batch = ReadLogBatch { tenant, audit, entries, deliveries: Vec::new() };
            tasks.spawn(async move { store.append_read_log(batch).await.unwrap() });
        }
        tasks.join_all().await;
        let counts_after = transaction_counts();
        (counts_after.0 - counts_before.0, counts_after.1 - counts_before.1)
    };
    // All batches are queued before the first transaction.
    assert_eq!(record_reads(256, 1).await, (1, 256));
    assert_eq!(record_reads(257, 1).await, (2, 257));
    assert_eq!(record_reads(2, 9000).await, (2, 2));
}

/// While another node still purges rows of a deleted tenant, the tenant stays in the list.
#[tokio::test]
async fn deleted_tenant_is_listed_until_all_its_rows_are_purged() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let permit = PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()));
    delete_tenant(&harness.vault_harness.vault, permit).await.unwrap();
    harness.advance(DAY);
    let other_node = connect_superuser(&harness).await;
    for table in ["tokens", "token_index"] {
        let delete_rows = format!("BEGIN; DELETE FROM {table}");
        other_node.batch_execute(&delete_rows).await.unwrap();
        harness.vault_harness.purge_tenants().await;
        other_node.batch_execute("ROLLBACK").await.unwrap();
    }
    harness.vault_harness.purge_tenants().await;
    let count_query = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM token_index),
        (SELECT count(*) FROM deleted_tenants)";
    let counts = other_node.query_one(count_query, &[]).await.unwrap();
    assert_eq!([0, 1, 2].map(|index| counts.get::<_, i64>(index)), [0, 0, 0]);
}
