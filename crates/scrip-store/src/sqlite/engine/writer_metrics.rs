//! Metrics of a writer.

use std::{fs, path::Path, time::Duration};

use scrip_core::types::metrics::{Counter, Histogram, MICROS_BOUNDS, WriterMetrics};

/// Histogram bounds of group sizes, up to the largest group.
const GROUP_SIZE_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

#[derive(Debug)]
pub(crate) struct WriterCounts {
    /// Writes rejected because the queue was full.
    pub(crate) rejected: Counter,
    group_sizes: Histogram<9>,
    commit_micros: Histogram<16>,
    failed: Counter,
}

impl Default for WriterCounts {
    fn default() -> Self {
        Self {
            rejected: Counter::default(),
            group_sizes: Histogram::new(GROUP_SIZE_BOUNDS),
            commit_micros: Histogram::new(MICROS_BOUNDS),
            failed: Counter::default(),
        }
    }
}

impl WriterCounts {
    /// Records one commit: its number of writes, or `None` if it failed.
    pub(crate) fn record_commit(&self, committed: Option<usize>, duration: Duration) {
        let Some(size) = committed else { return self.failed.increment() };
        self.group_sizes.record(size.try_into().unwrap_or(u64::MAX));
        self.commit_micros.record(duration.as_micros().try_into().unwrap_or(u64::MAX));
    }

    pub(crate) fn metrics(&self, database: &Path) -> WriterMetrics {
        let wal = fs::metadata(database.with_extension("db-wal"));
        WriterMetrics {
            rejected: self.rejected.get(),
            batch_sizes: self.group_sizes.snapshot(),
            commit_micros: self.commit_micros.snapshot(),
            unknown_outcomes: self.failed.get(),
            wal_bytes: wal.map(|it| it.len()).unwrap_or_default(),
            ..WriterMetrics::default()
        }
    }
}
