//! One counter: when it let requests in, and until when it lets none.
//!
//! Times are milliseconds of a clock that does not go back. It says 5 at 5.0 and at 5.9, so that
//! something of length L is surely over when it has moved by more than L: nothing is over early,
//! and nothing more than a millisecond late.

use std::collections::VecDeque;

use super::Rate;

/// The exact sliding log: every admission of the last window, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SlidingWindowLog {
    admitted: VecDeque<i64>,
    /// How many admissions there is room for: what is paid for, whatever the allocator gave.
    capacity: usize,
    /// The last millisecond that is blocked.
    blocked_until_ms: Option<i64>,
}

/// What a counter says to one more request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Verdict {
    #[default]
    Allowed,
    /// One too many. A counter that blocks does so from here on.
    Exceeded {
        wait_ms: i64,
    },
    Blocked {
        wait_ms: i64,
    },
}

/// Room of a new log. Most counters never see more.
pub(super) const INITIAL_CAPACITY: usize = 4;
/// Old admissions that one request removes: a few more than it adds.
const TRIMMED_PER_REQUEST: usize = 32;

pub(super) fn to_ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn max_requests(rate: Rate) -> usize {
    usize::try_from(rate.requests.get()).unwrap_or(usize::MAX)
}

impl SlidingWindowLog {
    /// Whether one more may come now. `lent` admissions stand elsewhere and may be this counter's.
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

    /// How long until the window has room; nothing when it has.
    fn window_wait_ms(&self, now_ms: i64, rate: Rate, overflow_count: usize) -> Option<i64> {
        let (window_ms, limit) = (to_ms(rate.window), max_requests(rate));
        // Mostly there is room whether or not the old ones are taken off.
        let has_room = |count: usize| count.saturating_add(overflow_count) < limit;
        if has_room(self.admitted.len()) || has_room(self.count(now_ms, rate)) {
            return None;
        }
        // Whose the lent ones are is not known, so all of them have to leave.
        let leaves =
            if overflow_count == 0 { self.admitted.len().checked_sub(limit) } else { None };
        let leaves = leaves.and_then(|it| self.admitted.get(it)).copied().unwrap_or(now_ms);
        Some(leaves.saturating_add(window_ms).saturating_sub(now_ms).saturating_add(1))
    }

    /// Admissions that are still in the window.
    pub(super) fn count(&self, now_ms: i64, rate: Rate) -> usize {
        self.admitted.len().saturating_sub(self.expired_count(now_ms, rate))
    }

    /// Of those, the ones up to this time.
    pub(super) fn count_until(&self, until_ms: i64, now_ms: i64, rate: Rate) -> usize {
        let until = self.admitted.partition_point(|it| *it <= until_ms);
        until.saturating_sub(self.expired_count(now_ms, rate))
    }

    fn expired_count(&self, now_ms: i64, rate: Rate) -> usize {
        let window_ms = to_ms(rate.window);
        self.admitted.partition_point(|at| now_ms.saturating_sub(*at) > window_ms)
    }

    /// Forgets some of what left the window.
    pub(super) fn trim(&mut self, now_ms: i64, rate: Rate) {
        let window_ms = to_ms(rate.window);
        for _ in 0..TRIMMED_PER_REQUEST {
            let is_out = |at: &i64| now_ms.saturating_sub(*at) > window_ms;
            if !self.admitted.front().is_some_and(is_out) {
                return;
            }
            self.admitted.pop_front();
        }
    }

    /// How many more places it takes to write one more, if there is none.
    pub(super) fn growth(&self, rate: Rate) -> Option<usize> {
        if self.admitted.len() < self.capacity {
            return None;
        }
        // No further than the rate can fill; beyond it only where many have yet to be removed.
        let doubled = self.capacity.saturating_mul(2).max(INITIAL_CAPACITY);
        let enough = max_requests(rate).max(self.capacity.saturating_add(1));
        Some(doubled.min(enough).saturating_sub(self.capacity))
    }

    pub(super) fn grow(&mut self, places: usize) {
        self.capacity = self.capacity.saturating_add(places);
        let more = self.capacity.saturating_sub(self.admitted.len());
        self.admitted.reserve_exact(more);
    }

    /// Gives back what a burst once needed; how many places.
    pub(super) fn shrink(&mut self) -> usize {
        let half = self.capacity / 2;
        if half < INITIAL_CAPACITY || self.admitted.len() > half / 2 {
            return 0;
        }
        self.admitted.shrink_to(half);
        std::mem::replace(&mut self.capacity, half).saturating_sub(half)
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Of two that read the clock one after the other, the later may be here first; a time that is
    /// written late leaves late.
    pub(super) fn admit(&mut self, now_ms: i64) {
        self.admitted.push_back(self.newest_ms(now_ms));
    }

    /// The last admission, or now when that is later.
    pub(super) fn newest_ms(&self, now_ms: i64) -> i64 {
        self.admitted.back().map_or(now_ms, |last| now_ms.max(*last))
    }

    /// From this refusal on.
    pub(super) fn block(&mut self, now_ms: i64, rate: Rate) {
        let block = rate.block_duration();
        self.blocked_until_ms = block.map(|it| now_ms.saturating_add(to_ms(it)));
    }

    /// Whether it says the same as one that was never asked.
    pub(super) fn is_expired(&self, now_ms: i64, window_ms: i64) -> bool {
        let newest = self.admitted.back();
        newest.is_none_or(|at| now_ms.saturating_sub(*at) > window_ms)
            && self.blocked_until_ms.is_none_or(|until| now_ms > until)
    }
}
