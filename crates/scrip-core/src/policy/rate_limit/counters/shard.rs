//! A shard of the counters: an index by key, and slots that can be scanned a few at a time; and the
//! capacity that all shards share.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::policy::rate_limit::{
    CounterCheck, CounterKey, RateLimitName,
    sliding_window_log::{INITIAL_CAPACITY, SlidingWindowLog, to_ms},
};

#[derive(Debug, Default)]
pub(super) struct CounterShard {
    index: HashMap<(RateLimitName, CounterKey), u32>,
    slots: Vec<Option<CounterSlot>>,
    free: Vec<u32>,
    /// The slot to scan next.
    cursor: usize,
}

#[derive(Debug)]
pub(super) struct CounterSlot {
    key: (RateLimitName, CounterKey),
    pub(super) log: SlidingWindowLog,
    window_ms: i64,
    pub(super) overflow: OverflowPresence,
}

/// The time of the last admission that a counter may have in the overflow logs of its limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverflowPresence {
    /// In the log that new counters share, if the counter was a new one.
    pub(super) newcomers_until_ms: i64,
    /// In the log of the counters that could not grow.
    pub(super) full_until_ms: i64,
}

impl OverflowPresence {
    pub(super) const NONE: Self = Self { newcomers_until_ms: i64::MIN, full_until_ms: i64::MIN };
}

impl CounterSlot {
    /// Whether the counter can be evicted without any effect on decisions. Admissions among the
    /// newcomers need no check, because they also count for a new counter.
    fn is_expired(&self, now_ms: i64) -> bool {
        let idle_ms = now_ms.saturating_sub(self.overflow.full_until_ms);
        self.log.is_expired(now_ms, self.window_ms) && idle_ms > self.window_ms
    }
}

impl CounterShard {
    pub(super) fn find(&self, check: &CounterCheck) -> Option<u32> {
        self.index.get(&(check.limit, check.key)).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&CounterSlot> {
        self.slots.get(slot_index(slot))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut CounterSlot> {
        self.slots.get_mut(slot_index(slot))?.as_mut()
    }

    /// Inserts a counter with its first admission. The caller has reserved its capacity.
    pub(super) fn insert(&mut self, check: &CounterCheck, overflow: OverflowPresence, now_ms: i64) {
        let key = (check.limit, check.key);
        let mut log = SlidingWindowLog::default();
        log.grow(INITIAL_CAPACITY);
        log.admit(now_ms);
        let slot = Some(CounterSlot { key, log, window_ms: to_ms(check.rate.window), overflow });
        let slot_number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        if let Some(free_slot) = self.slots.get_mut(slot_index(slot_number)) {
            *free_slot = slot;
            self.index.insert(key, slot_number);
        }
    }

    /// Scans a few slots, evicts expired counters and releases their capacity.
    pub(super) fn sweep(&mut self, now_ms: i64, slots_max: usize, capacity: &CounterCapacity) {
        for _ in 0..slots_max.min(self.slots.len()) {
            let index = self.cursor;
            self.cursor = index.saturating_add(1);
            if self.cursor >= self.slots.len() {
                self.cursor = 0;
            }
            let Some(slot) = self.slots.get_mut(index) else { continue };
            let Some(expired) = slot.take_if(|it| it.is_expired(now_ms)) else {
                continue;
            };
            self.index.remove(&expired.key);
            self.free.extend(u32::try_from(index));
            capacity.release_entries(expired.log.capacity().saturating_sub(INITIAL_CAPACITY));
            capacity.release_counter();
        }
    }
}

fn slot_index(slot_number: u32) -> usize {
    usize::try_from(slot_number).unwrap_or(usize::MAX)
}

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
