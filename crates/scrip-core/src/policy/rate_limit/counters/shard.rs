//! Some of the counters: by name in an index, and in slots that can be walked a few at a time.

use std::collections::HashMap;

use super::CounterCapacity;
use crate::policy::rate_limit::{
    CounterCheck, CounterKey, RateLimitName,
    sliding_window_log::{INITIAL_CAPACITY, SlidingWindowLog, to_ms},
};

#[derive(Debug, Default)]
pub(super) struct CounterShard {
    index: HashMap<(RateLimitName, CounterKey), u32>,
    slots: Vec<Option<CounterSlot>>,
    free: Vec<u32>,
    /// The slot to look at next.
    cursor: usize,
}

#[derive(Debug)]
pub(super) struct CounterSlot {
    key: (RateLimitName, CounterKey),
    pub(super) log: SlidingWindowLog,
    window_ms: i64,
    pub(super) overflow: OverflowPresence,
}

/// Up to when admissions of a counter may stand at the overflow of its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverflowPresence {
    /// Among those of newcomers, of which it was one.
    pub(super) newcomers_until_ms: i64,
    /// Among those for which logs had no room.
    pub(super) full_until_ms: i64,
}

impl OverflowPresence {
    pub(super) const NONE: Self = Self { newcomers_until_ms: i64::MIN, full_until_ms: i64::MIN };
}

impl CounterSlot {
    /// Whether a newcomer would be told the same. One that still shares would be, as a newcomer.
    fn is_expired(&self, now_ms: i64) -> bool {
        let lent_since_ms = now_ms.saturating_sub(self.overflow.full_until_ms);
        self.log.is_expired(now_ms, self.window_ms) && lent_since_ms > self.window_ms
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

    /// A counter that was not there, with its first admission. Its price is paid.
    pub(super) fn insert(&mut self, check: &CounterCheck, overflow: OverflowPresence, now_ms: i64) {
        let name = (check.limit, check.key);
        let mut log = SlidingWindowLog::default();
        log.grow(INITIAL_CAPACITY);
        log.admit(now_ms);
        let slot =
            Some(CounterSlot { key: name, log, window_ms: to_ms(check.rate.window), overflow });
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.slots.get_mut(slot_index(number)) {
            *place = slot;
            self.index.insert(name, number);
        }
    }

    /// Looks at a few slots, and gives back what is over.
    pub(super) fn sweep(&mut self, now_ms: i64, most: usize, capacity: &CounterCapacity) {
        for _ in 0..most.min(self.slots.len()) {
            let at = self.cursor;
            self.cursor = at.saturating_add(1);
            if self.cursor >= self.slots.len() {
                self.cursor = 0;
            }
            let Some(slot) = self.slots.get_mut(at) else { continue };
            let Some(ended) = slot.take_if(|it| it.is_expired(now_ms)) else {
                continue;
            };
            self.index.remove(&ended.key);
            self.free.extend(u32::try_from(at));
            capacity.release_entries(ended.log.capacity().saturating_sub(INITIAL_CAPACITY));
            capacity.release_counter();
        }
    }
}

fn slot_index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
