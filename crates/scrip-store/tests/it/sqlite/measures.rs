//! What the embedded engine counts of itself: exact, and there before anybody hears of a write.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use scrip_core::{
    audit::NotedTime,
    store::Maintenance,
    time::{KnownTime, Timestamp},
};
use scrip_seal::Mac;
use scrip_store::{Pages, SqliteStore};
use scrip_testing::MemoryStore;

/// Two milliseconds between any two looks.
fn stepping() -> Duration {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    Duration::from_millis(2 * LOOKS.fetch_add(1, Ordering::SeqCst))
}

#[tokio::test]
async fn commits_are_counted_and_timed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scrip.db");
    let store = SqliteStore::open_with(&path, Pages::Mapped, stepping).unwrap();
    let at = Timestamp { unix_ms: 1 };
    for done in 1..=200 {
        store
            .note_time(NotedTime { time: KnownTime { now: at, earliest: at }, mac: Mac([0; 32]) })
            .await
            .unwrap();
        let log = store.measures().logs.remove(0);
        assert_eq!((log.batch.count(), log.batch.sum), (done, done));
        assert_eq!((log.commit_micros.count(), log.commit_micros.sum), (done, done * 2_000));
        assert_eq!((log.log, log.waiting, log.failed, log.refused), ("vault", 0, 0, 0));
        assert!(log.wal_bytes > 0);
    }
    store.known_time().await.unwrap();
    let readers = store.measures().readers;
    assert_eq!((readers.busy, readers.idle, readers.opened), (0, 1, 1));
    assert!(MemoryStore::default().measures().logs.is_empty());
}
