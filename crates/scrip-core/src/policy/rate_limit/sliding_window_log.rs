//! One counter: the times of its admissions, and the end of its block.
//!
//! Times are milliseconds of a monotonic clock. The clock reads 5 at 5.0 and at 5.9, so a period of
//! length L is certainly over when the clock has advanced by more than L. No period ends early, and
//! none ends more than a millisecond late.

use std::collections::VecDeque;

use super::Rate;

/// An exact sliding window log: every admission of the last window, oldest first.
#[derive(Debug, Default)]
pub(super) struct SlidingWindowLog {
    admitted: VecDeque<i64>,
    /// The number of reserved entries. The allocator may have provided more.
    capacity: usize,
    /// The last blocked millisecond.
    blocked_until_ms: Option<i64>,
}

/// The decision of a counter on one more request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Verdict {
    #[default]
    Allowed,
    /// The request exceeds the rate. A counter with a block duration starts its block now.
    Exceeded {
        wait_ms: i64,
    },
    Blocked {
        wait_ms: i64,
    },
}

/// The capacity of a new log. Most counters need no more.
pub(super) const INITIAL_CAPACITY: usize = 4;
/// The number of expired admissions that one request removes: a few more than it adds.
const TRIMMED_PER_REQUEST: usize = 32;

pub(super) fn to_ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn max_requests(rate: Rate) -> usize {
    usize::try_from(rate.requests.get()).unwrap_or(usize::MAX)
}

impl SlidingWindowLog {
    /// Whether one more request is admitted now. `overflow_count` admissions are in the overflow
    /// and may belong to this counter.
    pub(super) fn verdict(&self, now_ms: i64, rate: Rate, overflow_count: usize) -> Verdict {
        let window_wait_ms = self.window_wait_ms(now_ms, rate, overflow_count);
        if let Some(until_ms) = self.blocked_until_ms.filter(|it| now_ms <= *it) {
            let wait_ms = until_ms.saturating_sub(now_ms).saturating_add(1);
            return Verdict::Blocked { wait_ms: wait_ms.max(window_wait_ms.unwrap_or(0)) };
        }
        let Some(window_wait_ms) = window_wait_ms else { return Verdict::Allowed };
        let block_wait_ms = rate.block_duration().map_or(0, |it| to_ms(it).saturating_add(1));
        Verdict::Exceeded { wait_ms: window_wait_ms.max(block_wait_ms) }
    }

    /// The wait until the window has capacity; `None` when it has.
    fn window_wait_ms(&self, now_ms: i64, rate: Rate, overflow_count: usize) -> Option<i64> {
        let (window_ms, limit) = (to_ms(rate.window), max_requests(rate));
        // Usually there is capacity even if expired admissions are counted.
        let has_capacity = |count: usize| count.saturating_add(overflow_count) < limit;
        if has_capacity(self.admitted.len()) || has_capacity(self.count(now_ms, rate)) {
            return None;
        }
        // Overflow admissions have no known owner, so all of them must leave the window first.
        let first_blocking =
            if overflow_count == 0 { self.admitted.len().checked_sub(limit) } else { None };
        let admitted_ms = first_blocking.and_then(|it| self.admitted.get(it)).copied();
        let admitted_ms = admitted_ms.unwrap_or(now_ms);
        Some(admitted_ms.saturating_add(window_ms).saturating_sub(now_ms).saturating_add(1))
    }

    /// The number of admissions in the window.
    pub(super) fn count(&self, now_ms: i64, rate: Rate) -> usize {
        self.admitted.len().saturating_sub(self.expired_count(now_ms, rate))
    }

    /// The number of admissions in the window up to this time.
    pub(super) fn count_until(&self, until_ms: i64, now_ms: i64, rate: Rate) -> usize {
        let end_index = self.admitted.partition_point(|it| *it <= until_ms);
        end_index.saturating_sub(self.expired_count(now_ms, rate))
    }

    fn expired_count(&self, now_ms: i64, rate: Rate) -> usize {
        let window_ms = to_ms(rate.window);
        self.admitted.partition_point(|at| now_ms.saturating_sub(*at) > window_ms)
    }

    /// Removes some of the admissions that left the window.
    pub(super) fn trim(&mut self, now_ms: i64, rate: Rate) {
        let window_ms = to_ms(rate.window);
        for _ in 0..TRIMMED_PER_REQUEST {
            let is_expired = |at: &i64| now_ms.saturating_sub(*at) > window_ms;
            if !self.admitted.front().is_some_and(is_expired) {
                return;
            }
            self.admitted.pop_front();
        }
    }

    /// The number of entries to reserve for one more admission; `None` when an entry is free.
    pub(super) fn growth(&self, rate: Rate) -> Option<usize> {
        if self.admitted.len() < self.capacity {
            return None;
        }
        // No more than the rate can fill, unless many expired admissions are not removed yet.
        let doubled = self.capacity.saturating_mul(2).max(INITIAL_CAPACITY);
        let needed = max_requests(rate).max(self.capacity.saturating_add(1));
        Some(doubled.min(needed).saturating_sub(self.capacity))
    }

    /// Reserves this many more entries.
    pub(super) fn grow(&mut self, entries: usize) {
        self.capacity = self.capacity.saturating_add(entries);
        let additional = self.capacity.saturating_sub(self.admitted.len());
        self.admitted.reserve_exact(additional);
    }

    /// Releases the capacity of an earlier burst; returns the number of entries.
    pub(super) fn shrink(&mut self) -> usize {
        let half_capacity = self.capacity / 2;
        if half_capacity < INITIAL_CAPACITY || self.admitted.len() > half_capacity / 2 {
            return 0;
        }
        self.admitted.shrink_to(half_capacity);
        std::mem::replace(&mut self.capacity, half_capacity).saturating_sub(half_capacity)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an admission. Of two threads that read the clock, the later reader may count first. An
    /// admission gets at least the time of the one before it, so it expires late rather than early.
    pub(super) fn admit(&mut self, now_ms: i64) {
        self.admitted.push_back(self.newest_ms(now_ms));
    }

    /// The time of the last admission, or now if that is later.
    pub(super) fn newest_ms(&self, now_ms: i64) -> i64 {
        self.admitted.back().map_or(now_ms, |last| now_ms.max(*last))
    }

    /// Starts a block at this rejection.
    pub(super) fn block(&mut self, now_ms: i64, rate: Rate) {
        let block = rate.block_duration();
        self.blocked_until_ms = block.map(|it| now_ms.saturating_add(to_ms(it)));
    }

    /// Whether the log decides like a new one.
    pub(super) fn is_expired(&self, now_ms: i64, window_ms: i64) -> bool {
        let newest = self.admitted.back();
        newest.is_none_or(|at| now_ms.saturating_sub(*at) > window_ms)
            && self.blocked_until_ms.is_none_or(|until| now_ms > until)
    }
}
