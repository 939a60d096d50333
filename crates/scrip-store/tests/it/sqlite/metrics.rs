//! Metrics of SQLite: exact, and updated before a write returns.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use scrip_core::{
    Timestamp, audit::SignedWatermark, store::Maintenance, types::time::ClockWatermark,
};
use scrip_seal::Mac;
use scrip_store::{PageMode, SqliteStore};
use scrip_testing::MemoryStore;

/// Advances two milliseconds per call.
fn stepping_ticks() -> Duration {
    static TICK_COUNT: AtomicU64 = AtomicU64::new(0);
    Duration::from_millis(2 * TICK_COUNT.fetch_add(1, Ordering::SeqCst))
}

#[tokio::test]
async fn sqlite_commits_are_counted_and_timed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scrip.db");
    let store = SqliteStore::open_with(&path, PageMode::Mapped, stepping_ticks).unwrap();
    let time = Timestamp { unix_ms: 1 };
    for commit_count in 1..=200 {
        store
            .save_watermark(SignedWatermark {
                watermark: ClockWatermark { now: time, earliest: time },
                mac: Mac([0; 32]),
            })
            .await
            .unwrap();
        let log = store.metrics().writers.remove(0);
        assert_eq!((log.batch_sizes.count(), log.batch_sizes.sum), (commit_count, commit_count));
        let counts = (log.commit_micros.count(), log.commit_micros.sum);
        assert_eq!(counts, (commit_count, commit_count * 2_000));
        assert_eq!((log.log, log.queued, log.unknown_outcomes, log.rejected), ("vault", 0, 0, 0));
        assert!(log.wal_bytes > 0);
    }
    store.load_watermark().await.unwrap();
    let readers = store.metrics().readers;
    assert_eq!((readers.busy, readers.idle, readers.opened), (0, 1, 1));
    assert!(MemoryStore::default().metrics().writers.is_empty());
}
