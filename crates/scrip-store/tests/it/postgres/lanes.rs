//! Those who wait for one tenant are in nobody else's way.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{Access, Operation, Seen},
    operations::tenants::delete_tenant::delete_tenant,
    policy::{Mandate, Permission},
    store::{Store, StoreError},
    time::Month,
    token::{Batched, Deduplicate, DeleteToken, InsertToken, TokenBatch, TokenRecord, TokenWrite},
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{DAY, StoreHarness, Updated, bare, record, revised},
    vault_harness::{Engine, settings, token_id},
};
use tokio::{task::JoinSet, time::timeout};
use tokio_postgres::{Client, NoTls};

/// Nothing here takes that long, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

async fn outside(desk: &StoreHarness) -> Client {
    let url = desk.world.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// Until the engine lets this many wait for a lock.
async fn until_waiting(client: &Client, expected: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting = async {
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, waiting).await.unwrap();
}

/// The desk's tenant is somebody's, until he ends his transaction.
async fn hold(desk: &StoreHarness, log: &str) -> Client {
    let holder = outside(desk).await;
    let tenant = desk.caller.tenant().id;
    let held = format!(
        "BEGIN; UPDATE lanes SET last_token = last_token WHERE tenant = '{tenant}' AND log = '{log}'"
    );
    holder.batch_execute(&held).await.unwrap();
    holder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_busy_tenant_leaves_connections_to_others() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(record("one")).await;
    let node = PostgresStore::open(settings(desk.world.database()).connections(2)).await.unwrap();
    let node: Arc<dyn Store> = Arc::new(node);
    let holder = hold(&desk, "audit").await;
    let mut deletes = JoinSet::new();
    for _ in 0..12 {
        let audit = desk.audit(Operation::DeleteToken);
        let delete = DeleteToken { id: token_id("one"), revision: 0, audit };
        let (node, permit) = (Arc::clone(&node), desk.permit(Permission::TokenDelete));
        deletes.spawn(async move { node.delete_token(permit, delete).await });
    }
    until_waiting(&holder, 1).await;
    // All of them came as far as they can.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let read = async {
        let inquiry = desk.stranger.inquire(Permission::TokenRead).unwrap();
        node.find_token(inquiry, &token_id("one"), desk.now()).await
    };
    // Less than those who wait get to wait.
    let read = timeout(Duration::from_secs(4), read).await;
    assert!(matches!(read, Ok(Ok(None))), "{read:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    while let Some(deleted) = deletes.join_next().await {
        assert!(matches!(deleted.unwrap(), Ok(_) | Err(StoreError::Busy)));
    }
    assert_eq!(desk.find("one").await, None);
}

/// Rights that were taken away are, also where requests have all connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_is_looked_at_however_busy_a_node_is() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let node = PostgresStore::open(settings(desk.world.database()).connections(1)).await.unwrap();
    let node: Arc<dyn Store> = Arc::new(node);
    let holder = outside(&desk).await;
    // What is not prepared yet waits for longer than a lock may be waited for.
    holder.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let mut reads = JoinSet::new();
    for _ in 0..4 {
        let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
        let (node, now) = (Arc::clone(&node), desk.now());
        reads.spawn(async move { node.find_token(inquiry, &token_id("one"), now).await });
    }
    until_waiting(&holder, 1).await;
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
async fn nobody_waits_for_what_is_counted() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let seen = async || {
        let (tenant, audit) = (desk.caller.tenant().id, desk.audit(Operation::GetToken));
        let access = Access { tenant, audit, seen: vec![Seen::new("", "empty")] };
        desk.store().record_access(access).await.unwrap();
    };
    desk.insert(record("one")).await;
    seen().await;
    desk.advance(DAY * 31);
    let holder = hold(&desk, "access").await;
    let updated = desk.update(desk.change(revised(&record("one")), Deduplicate::No)).await;
    assert_eq!(updated, Updated::Done);
    holder.batch_execute("COMMIT").await.unwrap();
    // What was handed over before is done by then.
    seen().await;
    let mandate = Mandate::of_operator(Arc::clone(desk.caller.principal().tenant()));
    let usage = desk.store().find_usage(&mandate, Month::of(desk.now())).await.unwrap();
    assert_eq!(usage.active, 1);
}

/// A tenant most of whose writes are done one by one is not held for as long as all of them take.
#[tokio::test]
async fn what_is_done_alone_is_bounded() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(record("one")).await;
    let holder = hold(&desk, "audit").await;
    let transactions = || {
        let log = desk.store().measures().logs.remove(0);
        (log.batch.count(), log.batch.sum)
    };
    let before = transactions();
    let same = |at: usize| {
        let token = bare(TokenRecord { id: token_id(&format!("id-{at}")), ..record("one") });
        let permit = desk.permit(Permission::TokenCreate);
        let audit = desk.audit(Operation::CreateToken);
        let deduplicate = Deduplicate::Yes;
        TokenWrite::Insert(InsertToken { permit, token, intent: None, deduplicate, audit })
    };
    let mut writes = JoinSet::new();
    for at in 0..5 {
        let batch =
            TokenBatch { writes: (at * 50..at * 50 + 50).map(same).collect(), render: None };
        let (store, inquiry) = (Arc::clone(&desk.world.vault.store), desk.inquiry());
        writes.spawn(async move { store.write_tokens(inquiry, batch).await });
    }
    until_waiting(&holder, 1).await;
    holder.batch_execute("COMMIT").await.unwrap();
    for written in writes.join_all().await {
        assert!(matches!(written, Ok(Batched::Written(it)) if it.len() == 50));
    }
    // All five came before anybody began: three are together, and then two.
    assert_eq!(transactions(), (before.0 + 2, before.1 + 5));
    assert_eq!(desk.counts().await[0], 1);
}

/// So many reads in a transaction of the access log, and so many records.
#[tokio::test]
async fn reads_that_are_written_together_are_bounded() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let record = async |reads: usize, records: usize| {
        let transactions = || {
            let log = desk.store().measures().logs.remove(1);
            (log.batch.count(), log.batch.sum)
        };
        let before = transactions();
        let mut tasks = JoinSet::new();
        for _ in 0..reads {
            let (tenant, audit) = (desk.caller.tenant().id, desk.audit(Operation::GetToken));
            let seen = (0..records).map(|_| Seen::new("one", "read")).collect();
            let store = Arc::clone(&desk.world.vault.store);
            let access = Access { tenant, audit, seen };
            tasks.spawn(async move { store.record_access(access).await.unwrap() });
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
async fn a_deleted_tenant_is_known_until_nothing_is_left_of_it() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(record("one")).await;
    let mandate = Mandate::of_operator(Arc::clone(desk.caller.principal().tenant()));
    delete_tenant(&desk.world.vault, mandate).await.unwrap();
    desk.advance(DAY);
    let other = outside(&desk).await;
    for table in ["tokens", "filed"] {
        let purged = format!("BEGIN; DELETE FROM {table}");
        other.batch_execute(&purged).await.unwrap();
        while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
            .await
            .unwrap()
            > 0
        {}
        other.batch_execute("ROLLBACK").await.unwrap();
    }
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&desk.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    let left = "SELECT (SELECT count(*) FROM tokens), (SELECT count(*) FROM filed),
        (SELECT count(*) FROM deleted_tenants)";
    let left = other.query_one(left, &[]).await.unwrap();
    assert_eq!([0, 1, 2].map(|at| left.get::<_, i64>(at)), [0, 0, 0]);
}
