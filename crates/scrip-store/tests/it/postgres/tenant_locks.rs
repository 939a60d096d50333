//! Those who wait for one tenant are in nobody else's way.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{Operation, ReadLogBatch, ReadLogEntry},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Permission, PolicyPermit},
    store::{Store, StoreError},
    time::Month,
    token::{
        BatchOutcome, Deduplicate, DeleteToken, InsertToken, TokenBatch, TokenRecord, TokenWrite,
    },
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{DAY, StoreHarness, UpdateOutcome, revised_record, token_record, without_cvc},
    vault_harness::{Engine, node_settings, token_id},
};
use tokio::{task::JoinSet, time::timeout};
use tokio_postgres::{Client, NoTls};

/// Nothing here takes that long, however busy the machine is.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn connect_superuser(harness: &StoreHarness) -> Client {
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// Until the engine lets this many wait for a lock.
async fn wait_for_lock_waiters(client: &Client, expected: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting = async {
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.unwrap();
}

/// The desk's tenant is somebody's, until he ends his transaction.
async fn hold_tenant_lock(harness: &StoreHarness, log: &str) -> Client {
    let holder = connect_superuser(harness).await;
    let tenant = harness.caller.tenant().id;
    let held = format!(
        "BEGIN; UPDATE lanes SET last_token = last_token WHERE tenant = '{tenant}' AND log = '{log}'"
    );
    holder.batch_execute(&held).await.unwrap();
    holder
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
    let holder = hold_tenant_lock(&harness, "audit").await;
    let mut deletes = JoinSet::new();
    for _ in 0..12 {
        let audit = harness.audit(Operation::DeleteToken);
        let delete = DeleteToken { id: token_id("one"), revision: 0, audit };
        let (node, permit) = (Arc::clone(&node), harness.permit(Permission::TokenDelete));
        deletes.spawn(async move { node.delete_token(permit, delete).await });
    }
    wait_for_lock_waiters(&holder, 1).await;
    // All of them came as far as they can.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let read = async {
        let lookup = harness.stranger.permit_lookup(Permission::TokenRead).unwrap();
        node.find_token(lookup, &token_id("one"), harness.now()).await
    };
    // Less than those who wait get to wait.
    let read = timeout(Duration::from_secs(4), read).await;
    assert!(matches!(read, Ok(Ok(None))), "{read:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    while let Some(deleted) = deletes.join_next().await {
        assert!(matches!(deleted.unwrap(), Ok(_) | Err(StoreError::Busy)));
    }
    assert_eq!(harness.find("one").await, None);
}

/// Rights that were taken away are, also where requests have all connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_loads_while_all_request_connections_are_busy() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let node =
        PostgresStore::open(node_settings(harness.vault_harness.database()).with_connections(1))
            .await
            .unwrap();
    let node: Arc<dyn Store> = Arc::new(node);
    let holder = connect_superuser(&harness).await;
    // What is not prepared yet waits for longer than a lock may be waited for.
    holder.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let mut reads = JoinSet::new();
    for _ in 0..4 {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let (node, now) = (Arc::clone(&node), harness.now());
        reads.spawn(async move { node.find_token(lookup, &token_id("one"), now).await });
    }
    wait_for_lock_waiters(&holder, 1).await;
    let looked = async {
        let version = node.directory_version().await.unwrap();
        (version, node.load_directory().await.unwrap().version)
    };
    let (version, loaded) = timeout(Duration::from_secs(4), looked).await.unwrap();
    assert_eq!(version, loaded);
    holder.batch_execute("COMMIT").await.unwrap();
}

/// The client of a write does not wait for the count of what it used, and it is counted all the same.
#[tokio::test]
async fn write_does_not_wait_for_its_activity_record() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let entries = async || {
        let (tenant, audit) = (harness.caller.tenant().id, harness.audit(Operation::GetToken));
        let access = ReadLogBatch { tenant, audit, entries: vec![ReadLogEntry::new("", "empty")] };
        harness.store().append_read_log(access).await.unwrap();
    };
    harness.insert(token_record("one")).await;
    entries().await;
    harness.advance(DAY * 31);
    let holder = hold_tenant_lock(&harness, "access").await;
    let updated = harness
        .update(harness.new_update(revised_record(&token_record("one")), Deduplicate::No))
        .await;
    assert_eq!(updated, UpdateOutcome::Done);
    holder.batch_execute("COMMIT").await.unwrap();
    // What was handed over before is done by then.
    entries().await;
    let permit = PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()));
    let usage =
        harness.store().find_usage(&permit, Month::from_timestamp(harness.now())).await.unwrap();
    assert_eq!(usage.active, 1);
}

/// A tenant most of whose writes are done one by one is not held for as long as all of them take.
#[tokio::test]
async fn individual_writes_per_transaction_are_bounded() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let holder = hold_tenant_lock(&harness, "audit").await;
    let transactions = || {
        let log = harness.store().metrics().writers.remove(0);
        (log.batch_sizes.count(), log.batch_sizes.sum)
    };
    let before = transactions();
    let same = |at: usize| {
        let token =
            without_cvc(TokenRecord { id: token_id(&format!("id-{at}")), ..token_record("one") });
        let permit = harness.permit(Permission::TokenCreate);
        let audit = harness.audit(Operation::CreateToken);
        let deduplicate = Deduplicate::Yes;
        TokenWrite::Insert(InsertToken { permit, token, intent: None, deduplicate, audit })
    };
    let mut writes = JoinSet::new();
    for at in 0..5 {
        let batch =
            TokenBatch { writes: (at * 50..at * 50 + 50).map(same).collect(), build_record: None };
        let (store, lookup) =
            (Arc::clone(&harness.vault_harness.vault.store), harness.lookup_permit());
        writes.spawn(async move { store.write_tokens(lookup, batch).await });
    }
    wait_for_lock_waiters(&holder, 1).await;
    holder.batch_execute("COMMIT").await.unwrap();
    for written in writes.join_all().await {
        assert!(matches!(written, Ok(BatchOutcome::Written(it)) if it.len() == 50));
    }
    // All five came before anybody began: three are together, and then two.
    assert_eq!(transactions(), (before.0 + 2, before.1 + 5));
    assert_eq!(harness.row_counts().await[0], 1);
}

/// So many reads in a transaction of the access log, and so many records.
#[tokio::test]
async fn read_log_batches_are_bounded() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let record = async |reads: usize, records: usize| {
        let transactions = || {
            let log = harness.store().metrics().writers.remove(1);
            (log.batch_sizes.count(), log.batch_sizes.sum)
        };
        let before = transactions();
        let mut tasks = JoinSet::new();
        for _ in 0..reads {
            let (tenant, audit) = (harness.caller.tenant().id, harness.audit(Operation::GetToken));
            let entries = (0..records).map(|_| ReadLogEntry::new("one", "read")).collect();
            let store = Arc::clone(&harness.vault_harness.vault.store);
            let access = ReadLogBatch { tenant, audit, entries };
            tasks.spawn(async move { store.append_read_log(access).await.unwrap() });
        }
        tasks.join_all().await;
        let after = transactions();
        (after.0 - before.0, after.1 - before.1)
    };
    // All come before anybody begins.
    assert_eq!(record(256, 1).await, (1, 256));
    assert_eq!(record(257, 1).await, (2, 257));
    assert_eq!(record(2, 9000).await, (2, 2));
}

/// Rows that another node has not finished purging are still of a tenant that is deleted.
#[tokio::test]
async fn deleted_tenant_is_listed_until_all_its_rows_are_purged() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let permit = PolicyPermit::for_operator(Arc::clone(harness.caller.principal().tenant()));
    delete_tenant(&harness.vault_harness.vault, permit).await.unwrap();
    harness.advance(DAY);
    let other = connect_superuser(&harness).await;
    for table in ["tokens", "filed"] {
        let purged = format!("BEGIN; DELETE FROM {table}");
        other.batch_execute(&purged).await.unwrap();
        while scrip_core::operations::tenants::purge_tenants::purge_tenants(
            &harness.vault_harness.vault,
            &[],
        )
        .await
        .unwrap()
            > 0
        {}
        other.batch_execute("ROLLBACK").await.unwrap();
    }
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(
        &harness.vault_harness.vault,
        &[],
    )
    .await
    .unwrap()
        > 0
    {}
    let left = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM filed),
        (SELECT count(*) FROM deleted_tenants)";
    let left = other.query_one(left, &[]).await.unwrap();
    assert_eq!([0, 1, 2].map(|at| left.get::<_, i64>(at)), [0, 0, 0]);
}
