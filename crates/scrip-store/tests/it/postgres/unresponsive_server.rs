//! An engine that does not answer: nobody waits for it for ever, and its connection is used no more.

use std::{process::Command, sync::Arc, time::Duration};

use scrip_core::{
    audit::{Operation, ReadLogBatch, ReadLogEntry},
    policy::Permission,
    store::{DirectoryStore, Store, StoreError},
    token::Deduplicate,
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{StoreHarness, insert_outcome, token_record, without_cvc},
    vault_harness::{Engine, node_settings, token_id},
};
use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, NoTls};

/// Nothing here takes that long, however busy the machine is.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn connect_superuser(harness: &StoreHarness) -> Client {
    let url = harness.vault_harness.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The engine's own processes for a node's connections, other than ours.
async fn list_backends(superuser: &Client) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND usename <> current_user";
    superuser.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn signal(signal: &str, pids: &[i32]) {
    let pids = pids.iter().map(i32::to_string);
    assert!(Command::new("kill").arg(signal).args(pids).status().unwrap().success());
}

/// A node that does not wait for long.
async fn open_impatient_node(harness: &StoreHarness) -> Arc<dyn Store> {
    let settings = node_settings(harness.vault_harness.database()).with_connections(2);
    let settings = settings.with_response_timeout(Duration::from_millis(500));
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

async fn find(harness: &StoreHarness, store: &dyn Store) -> Result<bool, StoreError> {
    let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
    let found = store.find_token(lookup, &token_id("one"), harness.now()).await;
    found.map(|it| it.is_some())
}

/// What a node does: a read, a list at one instant, a write, a record.
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
    for at in 0..4 {
        let store = open_impatient_node(&harness).await;
        find(&harness, &*store).await.unwrap();
        store.load_directory().await.unwrap();
        let stopped = list_backends(&superuser).await;
        signal("-STOP", &stopped);
        // Those that are connected are stopped; whoever connects anew is served.
        let mut failed = 0;
        let done = timeout(TEST_TIMEOUT, async {
            while let Err(error) = run_operation(&harness, &*store, at).await {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
                failed += 1;
            }
        });
        let done = done.await;
        signal("-CONT", &stopped);
        done.unwrap();
        assert!((1..=2).contains(&failed), "{at}: {failed}");
    }
}

/// One whose client went away meanwhile may be in the middle of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_of_a_cancelled_request_is_closed() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    harness.insert(token_record("one")).await;
    let superuser = connect_superuser(&harness).await;
    let store = open_impatient_node(&harness).await;
    find(&harness, &*store).await.unwrap();
    let stopped = list_backends(&superuser).await;
    signal("-STOP", &stopped);
    let gone = timeout(Duration::from_millis(50), find(&harness, &*store)).await;
    let found = timeout(TEST_TIMEOUT, find(&harness, &*store)).await;
    signal("-CONT", &stopped);
    assert!(gone.is_err(), "it was answered by nobody");
    assert!(found.unwrap().unwrap());
}

/// Also a read that is one statement gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_blocked_by_a_table_lock_times_out_as_busy() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let store =
        PostgresStore::open(node_settings(harness.vault_harness.database()).with_connections(1))
            .await
            .unwrap();
    // What is not prepared yet would wait before it has begun, for as long as any answer.
    find(&harness, &store).await.unwrap();
    superuser.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let began = Instant::now();
    let rejected = find(&harness, &store).await;
    assert!(matches!(rejected, Err(StoreError::Busy)), "{rejected:?}");
    assert!(began.elapsed() >= Duration::from_secs(4), "it was not the lock");
    superuser.batch_execute("ROLLBACK").await.unwrap();
    assert!(!find(&harness, &store).await.unwrap());
}

/// Whoever listens hears of a change when it is made, not when it is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_change_notifies_other_nodes() {
    let harness = StoreHarness::open(Engine::Postgres).await;
    let superuser = connect_superuser(&harness).await;
    let other = PostgresStore::open(node_settings(harness.vault_harness.database())).await.unwrap();
    let heard =
        async || timeout(TEST_TIMEOUT, other.wait_for_directory_change()).await.unwrap().unwrap();
    let listening = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    // The first comes when it begins to listen, since before that nobody did.
    heard().await;
    for _ in 0..3 {
        let silence = timeout(Duration::from_millis(100), other.wait_for_directory_change()).await;
        assert!(silence.is_err(), "nobody changed anything");
        harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
        heard().await;
        // Writes of tokens are nobody's business.
        harness.insert(token_record("one")).await;
        harness.delete("one", 0).await;
    }
    // One that was cut off comes back by itself, and tells that something may have been missed.
    let listeners = superuser.query(listening, &[]).await.unwrap();
    assert_eq!(listeners.len(), 1);
    let pid: i32 = listeners[0].get(0);
    superuser.query("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    // Meanwhile it is found by looking.
    let before = other.directory_version().await.unwrap();
    harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    assert!(other.directory_version().await.unwrap() > before);
    heard().await;
    harness.vault_harness.tenant(scrip_core::policy::TenantSettings::default()).await;
    heard().await;
    assert_ne!(superuser.query(listening, &[]).await.unwrap()[0].get::<_, i32>(0), pid);
    drop(other);
    // Commands do not listen, nor does one that is gone.
    let gone = async {
        while !superuser.query(listening, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, gone).await.unwrap();
}
