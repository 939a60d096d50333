//! A server that does not respond: every call times out, and its connection is not used again.

use std::{process::Command, sync::Arc, time::Duration};

use scrip_core::{
    disclosure::Deduplicate,
    read_log::{ReadLogBatch, ReadLogEntry},
    store::{DirectoryStore, Store, StoreCondition},
    types::{Operation, Permission, StoreError},
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{StoreHarness, insert_outcome, token_record, without_cvc},
    vault_harness::{Engine, node_settings, token_id},
};
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;

use crate::postgres::group_commit::queued_writes::connect_superuser;

/// Longer than any step of these tests takes, even on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Lists the server processes of the connections of nodes, without the connection of the test.
async fn list_backends(superuser: &Client) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND usename <> current_user";
    superuser.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn send_signal(signal: &str, pids: &[i32]) {
    let pids = pids.iter().map(i32::to_string);
    assert!(Command::new("kill").arg(signal).args(pids).status().unwrap().success());
}

/// Opens a node with a short response timeout.
async fn open_node_with_short_timeout(harness: &StoreHarness) -> Arc<dyn Store> {
    let settings = node_settings(harness.vault_harness.database()).with_connections(2);
    let settings = settings.with_response_timeout(Duration::from_millis(500));
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

async fn find(harness: &StoreHarness, store: &dyn Store) -> Result<bool, StoreError> {
    let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
    let outcome = store.find_token(lookup, &token_id("one"), harness.now()).await;
    outcome.map(|it| it.is_some())
}

/// Runs one of the operations of a node: a read, a list in one snapshot, a write, a read log
/// record.
async fn run_operation(
    harness: &StoreHarness,
    store: &dyn Store,
    operation: usize,
) -> Result<(), StoreError> {
    match operation {
        0 => find(harness, store).await.map(drop),
        1 => store.load_directory().await.map(drop),
        2 => {
            let insert = harness.new_insert(without_cvc(token_record("two")), Deduplicate::No);
            let (lookup, batch) = harness.insert_batch(insert);
            insert_outcome(store.write_tokens(lookup, batch).await).map(drop)
        }
        _ => {
            let entries = vec![ReadLogEntry::new("one".to_owned(), "read")];
            let tenant = harness.caller.tenant().id;
            store
                .append_read_log(ReadLogBatch {
                    tenant,
                    audit: harness.audit(Operation::GetToken),
                    entries,
                    deliveries: Vec::new(),
                })
                .await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_server_times_out_and_connections_are_replaced() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let superuser = connect_superuser(&harness).await;
    for operation in 0..4 {
        let store = open_node_with_short_timeout(&harness).await;
        find(&harness, &*store).await.unwrap();
        store.load_directory().await.unwrap();
        let stopped_pids = list_backends(&superuser).await;
        send_signal("-STOP", &stopped_pids);
        // Existing connections hang; new connections work.
        let mut failure_count = 0;
        let outcome = timeout(TEST_TIMEOUT, async {
            while let Err(error) = run_operation(&harness, &*store, operation).await {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
                failure_count += 1;
            }
        });
        let outcome = outcome.await;
        send_signal("-CONT", &stopped_pids);
        outcome.unwrap();
        assert!(
            (1..=2).contains(&failure_count),
            "operation {operation} failed {failure_count} times"
        );
    }
}

/// The connection of a cancelled request may be in any state, so it cannot be used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_of_a_cancelled_request_is_closed() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let superuser = connect_superuser(&harness).await;
    let store = open_node_with_short_timeout(&harness).await;
    find(&harness, &*store).await.unwrap();
    let stopped_pids = list_backends(&superuser).await;
    send_signal("-STOP", &stopped_pids);
    let cancelled = timeout(Duration::from_millis(50), find(&harness, &*store)).await;
    let found = timeout(TEST_TIMEOUT, find(&harness, &*store)).await;
    send_signal("-CONT", &stopped_pids);
    assert!(cancelled.is_err(), "the request should not get a response");
    assert!(found.unwrap().unwrap());
}

/// The lock timeout also ends a read of one statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_blocked_by_a_table_lock_times_out_as_busy() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let store =
        PostgresStore::open(node_settings(harness.vault_harness.database()).with_connections(1))
            .await
            .unwrap();
    // An unprepared statement would wait for the response timeout instead of the lock timeout.
    find(&harness, &store).await.unwrap();
    superuser.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let started = Instant::now();
    let rejected = find(&harness, &store).await;
    assert!(matches!(rejected, Err(StoreError::Busy)), "{rejected:?}");
    assert!(started.elapsed() >= Duration::from_secs(4), "the lock timeout should end the read");
    superuser.batch_execute("ROLLBACK").await.unwrap();
    assert!(!find(&harness, &store).await.unwrap());
}

/// Delays each commit that writes a token or the directory while `slow_commits` has a row, as a
/// synchronous standby that is away delays it.
const SLOW_COMMITS: &str = "
CREATE TABLE slow_commits (seconds int);
INSERT INTO slow_commits VALUES (2);
CREATE FUNCTION delay_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN PERFORM pg_sleep(seconds) FROM public.slow_commits; RETURN NULL; END';
CREATE CONSTRAINT TRIGGER delay_commit AFTER INSERT ON tokens
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delay_commit();
CREATE CONSTRAINT TRIGGER delay_commit AFTER UPDATE ON directory_state
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delay_commit()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_a_response_is_a_failed_commit_until_a_probe_commits() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let store = open_node_with_short_timeout(&harness).await;
    store.probe().await.unwrap();
    assert_eq!(store.condition(), StoreCondition::Up);
    superuser.batch_execute(SLOW_COMMITS).await.unwrap();
    assert!(run_operation(&harness, &*store, 2).await.is_err());
    assert_eq!(store.condition(), StoreCondition::CommitFailed);
    assert!(store.probe().await.is_err());
    assert_eq!(store.condition(), StoreCondition::CommitFailed);
    superuser.batch_execute("DELETE FROM slow_commits").await.unwrap();
    let recover = async {
        while store.probe().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, recover).await.unwrap();
    assert_eq!(store.condition(), StoreCondition::Up);
}

/// A disk that is full while `full_disk` has a row: an update in place succeeds, and a write that
/// needs more space fails.
const FULL_DISK: &str = "
CREATE TABLE full_disk (free_bytes int);
INSERT INTO full_disk VALUES (1000);
CREATE FUNCTION check_space() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN
    IF EXISTS (SELECT FROM public.full_disk WHERE free_bytes < octet_length(NEW::text)) THEN
        RAISE SQLSTATE ''53100'';
    END IF;
    RETURN NEW;
    END';
CREATE TRIGGER check_space BEFORE INSERT OR UPDATE ON clock_watermark
    FOR EACH ROW EXECUTE FUNCTION check_space();
CREATE FUNCTION reject_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN RAISE SQLSTATE ''53100''; END';
CREATE TRIGGER reject_row BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION reject_row()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_stays_full_until_a_large_probe_write_succeeds() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let settings = node_settings(harness.vault_harness.database());
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(settings).await.unwrap());
    superuser.batch_execute(FULL_DISK).await.unwrap();
    assert!(run_operation(&harness, &*store, 2).await.is_err());
    for _ in 0..3 {
        assert_eq!(store.condition(), StoreCondition::DiskFull);
        assert!(store.probe().await.is_err());
    }
    let watermark = store.load_watermark().await.unwrap();
    superuser.batch_execute("DELETE FROM full_disk").await.unwrap();
    store.probe().await.unwrap();
    assert_eq!(store.condition(), StoreCondition::Up);
    // The probe keeps nothing that it wrote.
    assert_eq!(store.load_watermark().await.unwrap(), watermark);
}

/// A listening node is notified of a change immediately, without polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_change_notifies_other_nodes() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let other_node =
        PostgresStore::open(node_settings(harness.vault_harness.database())).await.unwrap();
    let wait_for_notification = async || {
        timeout(TEST_TIMEOUT, other_node.wait_for_directory_change()).await.unwrap().unwrap()
    };
    let listener_query = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    // The first notification comes when listening starts, because earlier changes may have been
    // missed.
    wait_for_notification().await;
    for _ in 0..3 {
        let notification =
            timeout(Duration::from_millis(100), other_node.wait_for_directory_change()).await;
        assert!(notification.is_err(), "there should be no notification without a change");
        harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
        wait_for_notification().await;
        // Token writes send no notification.
        harness.insert(token_record("one")).await;
        harness.delete("one", 0).await;
    }
    // A listener that was disconnected reconnects and reports that changes may have been missed.
    let listeners = superuser.query(listener_query, &[]).await.unwrap();
    assert_eq!(listeners.len(), 1);
    let pid: i32 = listeners[0].get(0);
    superuser.query("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    // In the meantime, polling finds the change.
    let version_before = other_node.directory_version().await.unwrap();
    harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    assert!(other_node.directory_version().await.unwrap() > version_before);
    wait_for_notification().await;
    harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    wait_for_notification().await;
    assert_ne!(superuser.query(listener_query, &[]).await.unwrap()[0].get::<_, i32>(0), pid);
    drop(other_node);
    // Commands do not listen, and a closed node does not either.
    let wait_for_disconnect = async {
        while !superuser.query(listener_query, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, wait_for_disconnect).await.unwrap();
}
