//! An engine that does not answer: nobody waits for it for ever, and its connection is used no more.

use std::{process::Command, sync::Arc, time::Duration};

use scrip_core::{
    audit::{Access, Operation, Seen},
    policy::Permission,
    store::{DirectoryStore, Store, StoreError},
    token::Deduplicate,
};
use scrip_store::PostgresStore;
use scrip_testing::{
    store_harness::{StoreHarness, bare, inserted, record},
    vault_harness::{Engine, settings, token_id},
};
use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, NoTls};

/// Nothing here takes that long, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

async fn superuser(desk: &StoreHarness) -> Client {
    let url = desk.world.database().superuser_url();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The engine's own processes for a node's connections, other than ours.
async fn backends(superuser: &Client) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND usename <> current_user";
    superuser.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn signal(signal: &str, pids: &[i32]) {
    let pids = pids.iter().map(i32::to_string);
    assert!(Command::new("kill").arg(signal).args(pids).status().unwrap().success());
}

/// A node that does not wait for long.
async fn node(desk: &StoreHarness) -> Arc<dyn Store> {
    let settings = settings(desk.world.database()).connections(2);
    let settings = settings.answer_within(Duration::from_millis(500));
    Arc::new(PostgresStore::open(settings).await.unwrap())
}

async fn find(desk: &StoreHarness, store: &dyn Store) -> Result<bool, StoreError> {
    let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
    let found = store.find_token(inquiry, &token_id("one"), desk.now()).await;
    found.map(|it| it.is_some())
}

/// What a node does: a read, a list at one instant, a write, a record.
async fn each(desk: &StoreHarness, store: &dyn Store, at: usize) -> Result<(), StoreError> {
    match at {
        0 => find(desk, store).await.map(drop),
        1 => store.load_directory().await.map(drop),
        2 => {
            let insert = desk.insertion(bare(record("two")), Deduplicate::No);
            let (inquiry, batch) = desk.sent(insert);
            inserted(store.write_tokens(inquiry, batch).await).map(drop)
        }
        _ => {
            let seen = vec![Seen::new("one".to_owned(), "read")];
            let tenant = desk.caller.tenant().id;
            store
                .record_access(Access { tenant, audit: desk.audit(Operation::GetToken), seen })
                .await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_hangs_is_not_waited_for() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(record("one")).await;
    let superuser = superuser(&desk).await;
    for at in 0..4 {
        let store = node(&desk).await;
        find(&desk, &*store).await.unwrap();
        store.load_directory().await.unwrap();
        let stopped = backends(&superuser).await;
        signal("-STOP", &stopped);
        // Those that are connected are stopped; whoever connects anew is served.
        let mut failed = 0;
        let done = timeout(LONG, async {
            while let Err(error) = each(&desk, &*store, at).await {
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
async fn a_connection_that_nobody_waits_for_any_more_is_closed() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    desk.insert(record("one")).await;
    let superuser = superuser(&desk).await;
    let store = node(&desk).await;
    find(&desk, &*store).await.unwrap();
    let stopped = backends(&superuser).await;
    signal("-STOP", &stopped);
    let gone = timeout(Duration::from_millis(50), find(&desk, &*store)).await;
    let found = timeout(LONG, find(&desk, &*store)).await;
    signal("-CONT", &stopped);
    assert!(gone.is_err(), "it was answered by nobody");
    assert!(found.unwrap().unwrap());
}

/// Also a read that is one statement gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_locked_out_gives_up() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let superuser = superuser(&desk).await;
    let store = PostgresStore::open(settings(desk.world.database()).connections(1)).await.unwrap();
    // What is not prepared yet would wait before it has begun, for as long as any answer.
    find(&desk, &store).await.unwrap();
    superuser.batch_execute("BEGIN; LOCK TABLE tokens").await.unwrap();
    let began = Instant::now();
    let refused = find(&desk, &store).await;
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    assert!(began.elapsed() >= Duration::from_secs(4), "it was not the lock");
    superuser.batch_execute("ROLLBACK").await.unwrap();
    assert!(!find(&desk, &store).await.unwrap());
}

/// Whoever listens hears of a change when it is made, not when it is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_directory_is_heard_on_other_nodes() {
    let desk = StoreHarness::open(Engine::Postgres).await;
    let superuser = superuser(&desk).await;
    let other = PostgresStore::open(settings(desk.world.database())).await.unwrap();
    let heard = async || timeout(LONG, other.directory_changed()).await.unwrap().unwrap();
    let listening = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    // The first comes when it begins to listen, since before that nobody did.
    heard().await;
    for _ in 0..3 {
        let silence = timeout(Duration::from_millis(100), other.directory_changed()).await;
        assert!(silence.is_err(), "nobody changed anything");
        desk.world.tenant(scrip_core::policy::Settings::default()).await;
        heard().await;
        // Writes of tokens are nobody's business.
        desk.insert(record("one")).await;
        desk.delete("one", 0).await;
    }
    // One that was cut off comes back by itself, and tells that something may have been missed.
    let listeners = superuser.query(listening, &[]).await.unwrap();
    assert_eq!(listeners.len(), 1);
    let pid: i32 = listeners[0].get(0);
    superuser.query("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    // Meanwhile it is found by looking.
    let before = other.directory_version().await.unwrap();
    desk.world.tenant(scrip_core::policy::Settings::default()).await;
    assert!(other.directory_version().await.unwrap() > before);
    heard().await;
    desk.world.tenant(scrip_core::policy::Settings::default()).await;
    heard().await;
    assert_ne!(superuser.query(listening, &[]).await.unwrap()[0].get::<_, i32>(0), pid);
    drop(other);
    // Commands do not listen, nor does one that is gone.
    let gone = async {
        while !superuser.query(listening, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, gone).await.unwrap();
}
