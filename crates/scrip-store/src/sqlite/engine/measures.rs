//! What a writer counts of its commits.

use std::{fs, path::Path, time::Duration};

use scrip_core::measure::{Counter, Histogram, LogMeasures, MICROS_BOUNDS};

use crate::sqlite::engine::writer::QUEUE_MAX;

/// Up to the largest batch there is.
const BATCH_BOUNDS: &[u64; 9] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

#[derive(Debug)]
pub(crate) struct Counts {
    /// Writes that found the queue full.
    pub(crate) refused: Counter,
    batch: Histogram<9>,
    micros: Histogram<16>,
    failed: Counter,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            refused: Counter::default(),
            batch: Histogram::new(BATCH_BOUNDS),
            micros: Histogram::new(MICROS_BOUNDS),
            failed: Counter::default(),
        }
    }
}

impl Counts {
    /// One commit: how many writes it has, or that it failed.
    pub(crate) fn note(&self, committed: Option<usize>, took: Duration) {
        let Some(size) = committed else { return self.failed.one() };
        self.batch.note(size.try_into().unwrap_or(u64::MAX));
        self.micros.note(took.as_micros().try_into().unwrap_or(u64::MAX));
    }

    pub(crate) fn read(&self, database: &Path) -> LogMeasures {
        let wal = fs::metadata(database.with_extension("db-wal"));
        LogMeasures {
            waiting_max: QUEUE_MAX.try_into().unwrap_or(u64::MAX),
            refused: self.refused.get(),
            batch: self.batch.read(),
            commit_micros: self.micros.read(),
            failed: self.failed.get(),
            wal_bytes: wal.map(|it| it.len()).unwrap_or_default(),
            ..LogMeasures::default()
        }
    }
}
