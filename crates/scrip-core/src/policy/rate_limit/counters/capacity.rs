//! The number of counters and entries in use, shared by all shards.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The capacity that all shards share.
#[derive(Debug)]
pub(super) struct CounterCapacity {
    pub(super) counters: AtomicUsize,
    pub(super) counters_max: usize,
    /// Entries in the logs.
    pub(super) entries: AtomicUsize,
    pub(super) entries_max: usize,
}

impl CounterCapacity {
    pub(super) fn is_crowded(&self) -> bool {
        self.counters.load(Ordering::Relaxed) > self.counters_max / 2
            || self.entries.load(Ordering::Relaxed) > self.entries_max / 2
    }

    /// Reserves a counter with its initial entries.
    pub(super) fn reserve_counter(&self) -> bool {
        try_add(&self.counters, 1, self.counters_max)
    }

    pub(super) fn release_counter(&self) {
        self.counters.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn reserve_entries(&self, count: usize) -> bool {
        try_add(&self.entries, count, self.entries_max)
    }

    pub(super) fn release_entries(&self, count: usize) {
        if count > 0 {
            self.entries.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

/// Adds to a counter, unless the sum would exceed the maximum.
fn try_add(counter: &AtomicUsize, count: usize, max: usize) -> bool {
    let add = |it: usize| it.checked_add(count).filter(|it| *it <= max);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}
