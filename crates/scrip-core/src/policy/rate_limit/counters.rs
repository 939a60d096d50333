//! The rate limit counters of one process: exact, sharded, and of bounded size.
//!
//! A request counts on all of its counters or on none: their shards are locked in a fixed order. A
//! live counter is never evicted. When the capacity is exhausted, all new counters of a limit share
//! one log, its *overflow*. Every overflow admission that may belong to a counter counts against it
//! until the admission leaves the window. A counter with a log that cannot grow writes its
//! admissions to the overflow too.

mod shard;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    Timestamp,
    policy::rate_limit::{
        CounterCheck, CounterKey, Rate, RateLimitName,
        counters::shard::{CounterCapacity, CounterShard, OverflowPresence},
        sliding_window_log::{SlidingWindowLog, Verdict, to_ms},
    },
};

/// The limit that rejected a request, and a wait that is certainly long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRejection {
    pub limit: RateLimitName,
    pub rate: Rate,
    pub retry_after: Duration,
}

/// The counters of all limits.
#[derive(Debug)]
pub struct RateLimitCounters {
    shards: Vec<Mutex<CounterShard>>,
    /// One for each limit. Locked after the shards.
    overflow: Mutex<Vec<OverflowLogs>>,
    /// The time until which an overflow admission may still count.
    overflow_until_ms: AtomicI64,
    capacity: CounterCapacity,
    /// Random, so that a client cannot choose addresses that fall into one shard.
    hasher: RandomState,
    /// The shard to scan next.
    next_swept_shard: AtomicUsize,
}

/// Admissions of a limit without an entry in a counter's own log.
#[derive(Debug, Default)]
struct OverflowLogs {
    /// The shared counter of all new counters.
    newcomers: SlidingWindowLog,
    /// Admissions of counters with logs that could not grow. Never decides alone.
    full_counters: SlidingWindowLog,
}

/// The usage of the counters, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterUsage {
    pub counters: usize,
    pub counters_max: usize,
    /// Reserved entries for admissions, over all counters.
    pub entries: usize,
    pub entries_max: usize,
}

const SHARDS: usize = 64;
/// Most counters see a few requests; some see two thousand.
const ENTRIES_PER_COUNTER: usize = 40;
const ENTRIES_MIN: usize = 256 * 1024;
/// The number of slots that a request scans when more than half of the capacity is used.
const SLOTS_PER_SWEEP: usize = 8;

/// The log that an admission is written to.
#[derive(Debug, Clone, Copy)]
enum AdmissionTarget {
    /// An existing counter, with this many more entries.
    Existing {
        slot: u32,
        growth: usize,
    },
    New,
    /// The overflow: the counter exists, but its log cannot grow.
    FullCounter {
        slot: u32,
    },
    /// The overflow: there is no capacity for a new counter.
    SharedOverflow,
}

/// The decision of one counter, and the reserved place for the admission.
#[derive(Debug, Clone, Copy)]
struct AdmissionPlan {
    /// The index of the locked shard in [`LockedShards::guards`].
    guard_index: usize,
    target: AdmissionTarget,
    verdict: Verdict,
}

impl RateLimitCounters {
    pub fn new(counters_max: usize) -> Self {
        let entries_max = counters_max.saturating_mul(ENTRIES_PER_COUNTER).max(ENTRIES_MIN);
        let overflow = RateLimitName::ALL.iter().map(|_| OverflowLogs::default()).collect();
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            overflow: Mutex::new(overflow),
            overflow_until_ms: AtomicI64::new(i64::MIN),
            capacity: CounterCapacity {
                counters: AtomicUsize::new(0),
                counters_max,
                entries: AtomicUsize::new(0),
                entries_max,
            },
            hasher: RandomState::new(),
            next_swept_shard: AtomicUsize::new(0),
        }
    }

    /// Counts a request on all of these counters, or on none.
    /// Errors: at least one counter rejects the request; the error is the one with the longest
    /// wait.
    pub fn count(&self, now: Timestamp, checks: &[CounterCheck]) -> Result<(), RateLimitRejection> {
        let now_ms = now.unix_ms;
        self.sweep_when_crowded(now_ms);
        let mut shards = LockedShards::new(self, checks);
        let plans: Vec<_> = checks.iter().map(|it| shards.plan(now_ms, it)).collect();
        if let Some(rejection) = longest_rejection(checks, &plans) {
            for (check, plan) in checks.iter().zip(&plans) {
                shards.reject(now_ms, check, plan);
            }
            return Err(rejection);
        }
        for (check, plan) in checks.iter().zip(&plans) {
            shards.admit(now_ms, check, plan);
        }
        Ok(())
    }

    /// Whether this counter would reject a request. Counts nothing, but starts a block if one is
    /// due.
    /// Errors: the counter would reject.
    pub fn probe(&self, now: Timestamp, check: &CounterCheck) -> Result<(), RateLimitRejection> {
        let checks = std::slice::from_ref(check);
        let mut shards = LockedShards::new(self, checks);
        let plan = shards.plan(now.unix_ms, check);
        shards.reject(now.unix_ms, check, &plan);
        longest_rejection(checks, &[plan]).map_or(Ok(()), Err)
    }

    /// Evicts all expired counters, one shard after the other.
    pub fn sweep(&self, now: Timestamp) {
        if self.capacity.is_crowded() {
            for shard in &self.shards {
                lock_ignoring_poison(shard).sweep(now.unix_ms, usize::MAX, &self.capacity);
            }
        }
    }

    pub fn usage(&self) -> CounterUsage {
        CounterUsage {
            counters: self.capacity.counters.load(Ordering::Relaxed),
            counters_max: self.capacity.counters_max,
            entries: self.capacity.entries.load(Ordering::Relaxed),
            entries_max: self.capacity.entries_max,
        }
    }

    /// Evicts expired counters from a few slots of one shard, unless another thread has locked the
    /// shard. Each request does a part of this work.
    fn sweep_when_crowded(&self, now_ms: i64) {
        if !self.capacity.is_crowded() {
            return;
        }
        let sweep_count = self.next_swept_shard.fetch_add(1, Ordering::Relaxed);
        let shard = sweep_count.checked_rem(self.shards.len()).and_then(|it| self.shards.get(it));
        if let Some(Ok(mut shard)) = shard.map(Mutex::try_lock) {
            shard.sweep(now_ms, SLOTS_PER_SWEEP, &self.capacity);
        }
    }

    /// All counters of one address are in one shard, so most requests lock two shards.
    fn shard_index(&self, key: &CounterKey) -> usize {
        let hash = match key {
            CounterKey::Address(network) | CounterKey::Pair(_, network) => {
                self.hasher.hash_one(network)
            }
            CounterKey::Digest(digest) => self.hasher.hash_one(digest),
        };
        let hash = usize::try_from(hash >> 32).unwrap_or_default();
        hash.checked_rem(self.shards.len()).unwrap_or_default()
    }
}

/// The rejection with the longest wait.
fn longest_rejection(
    checks: &[CounterCheck],
    plans: &[AdmissionPlan],
) -> Option<RateLimitRejection> {
    let to_rejection = |(check, plan): (&CounterCheck, &AdmissionPlan)| match plan.verdict {
        Verdict::Allowed => None,
        Verdict::Exceeded { wait_ms } | Verdict::Blocked { wait_ms } => {
            let retry_after = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
            Some(RateLimitRejection { limit: check.limit, rate: check.rate, retry_after })
        }
    };
    checks.iter().zip(plans).filter_map(to_rejection).max_by_key(|it| it.retry_after)
}

/// A poisoned lock is no reason to stop counting.
fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The locked shards of one request.
struct LockedShards<'a> {
    counters: &'a RateLimitCounters,
    /// Sorted by shard number, which is the order of locking.
    guards: Vec<(usize, MutexGuard<'a, CounterShard>)>,
    overflow: Option<MutexGuard<'a, Vec<OverflowLogs>>>,
}

impl<'a> LockedShards<'a> {
    fn new(counters: &'a RateLimitCounters, checks: &[CounterCheck]) -> Self {
        let mut shard_indexes: Vec<_> =
            checks.iter().map(|it| counters.shard_index(&it.key)).collect();
        shard_indexes.sort_unstable();
        shard_indexes.dedup();
        let lock =
            |it: usize| counters.shards.get(it).map(|shard| (it, lock_ignoring_poison(shard)));
        let guards = shard_indexes.into_iter().filter_map(lock).collect();
        Self { counters, guards, overflow: None }
    }

    fn plan(&mut self, now_ms: i64, check: &CounterCheck) -> AdmissionPlan {
        let shard_index = self.counters.shard_index(&check.key);
        let guard_index = self.guards.iter().position(|it| it.0 == shard_index).unwrap_or_default();
        let rate = check.rate;
        let slot = self.guards.get(guard_index).and_then(|it| it.1.find(check));
        let Some(slot) = slot else {
            if !self.counters.capacity.reserve_counter() {
                let verdict =
                    self.with_overflow(check.limit, |it| it.newcomers.verdict(now_ms, rate, 0));
                return AdmissionPlan {
                    guard_index,
                    target: AdmissionTarget::SharedOverflow,
                    verdict,
                };
            }
            let newcomer_presence =
                OverflowPresence { newcomers_until_ms: i64::MAX, ..OverflowPresence::NONE };
            let verdict = SlidingWindowLog::default().verdict(
                now_ms,
                rate,
                self.overflow_count(now_ms, check, newcomer_presence),
            );
            return AdmissionPlan { guard_index, target: AdmissionTarget::New, verdict };
        };
        let (growth, presence) = self.reserve_entry(now_ms, check, guard_index, slot);
        let (target, presence) = match growth {
            Some(growth) => (AdmissionTarget::Existing { slot, growth }, presence),
            None => (
                AdmissionTarget::FullCounter { slot },
                OverflowPresence { full_until_ms: i64::MAX, ..presence },
            ),
        };
        let overflow_count = self.overflow_count(now_ms, check, presence);
        let verdict = self.verdict(now_ms, check, guard_index, slot, overflow_count);
        AdmissionPlan { guard_index, target, verdict }
    }

    /// Reserves an entry in the log of a counter. Returns the growth that one more admission needs,
    /// or `None` when the log would have to grow and cannot; and the counter's presence in the
    /// overflow.
    fn reserve_entry(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        guard_index: usize,
        slot: u32,
    ) -> (Option<usize>, OverflowPresence) {
        let capacity = &self.counters.capacity;
        let slot = self.guards.get_mut(guard_index).and_then(|it| it.1.get_mut(slot));
        let Some(slot) = slot else { return (None, OverflowPresence::NONE) };
        slot.log.trim(now_ms, check.rate);
        capacity.release_entries(slot.log.shrink());
        let growth = slot.log.growth(check.rate);
        let reserved_growth = growth.map(|it| capacity.reserve_entries(it).then_some(it));
        (reserved_growth.unwrap_or(Some(0)), slot.overflow)
    }

    fn verdict(
        &self,
        now_ms: i64,
        check: &CounterCheck,
        guard_index: usize,
        slot: u32,
        overflow_count: usize,
    ) -> Verdict {
        let slot = self.guards.get(guard_index).and_then(|it| it.1.get(slot));
        slot.map_or(Verdict::Allowed, |it| it.log.verdict(now_ms, check.rate, overflow_count))
    }

    /// The number of overflow admissions of the limit that may belong to this counter.
    fn overflow_count(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        presence: OverflowPresence,
    ) -> usize {
        if !self.has_overflow(now_ms) {
            return 0;
        }
        let rate = check.rate;
        let OverflowPresence { newcomers_until_ms, full_until_ms } = presence;
        self.with_overflow(check.limit, |it| {
            let newcomer_count = it.newcomers.count_until(newcomers_until_ms, now_ms, rate);
            let full_count = it.full_counters.count_until(full_until_ms, now_ms, rate);
            newcomer_count.saturating_add(full_count)
        })
    }

    /// A writer of the overflow had a shard lock, which this request may have now.
    fn has_overflow(&self, now_ms: i64) -> bool {
        self.counters.overflow_until_ms.load(Ordering::Acquire) >= now_ms
    }

    fn with_overflow<T: Default>(
        &mut self,
        limit: RateLimitName,
        use_logs: impl FnOnce(&mut OverflowLogs) -> T,
    ) -> T {
        let counters = self.counters;
        let overflow =
            self.overflow.get_or_insert_with(|| lock_ignoring_poison(&counters.overflow));
        overflow.get_mut(limit.index()).map(use_logs).unwrap_or_default()
    }

    /// Releases the reserved capacity, and starts the blocks that are due.
    fn reject(&mut self, now_ms: i64, check: &CounterCheck, plan: &AdmissionPlan) {
        let is_exceeded = matches!(plan.verdict, Verdict::Exceeded { .. });
        let starts_block = is_exceeded && check.rate.block_duration().is_some();
        match plan.target {
            AdmissionTarget::Existing { growth, .. } => {
                self.counters.capacity.release_entries(growth)
            }
            AdmissionTarget::New => self.counters.capacity.release_counter(),
            AdmissionTarget::FullCounter { .. } | AdmissionTarget::SharedOverflow => (),
        }
        if !starts_block {
            return;
        }
        match plan.target {
            AdmissionTarget::Existing { slot, .. } | AdmissionTarget::FullCounter { slot } => {
                let shard = self.guards.get_mut(plan.guard_index);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.log.block(now_ms, check.rate);
                }
            }
            AdmissionTarget::SharedOverflow => {
                self.with_overflow(check.limit, |it| it.newcomers.block(now_ms, check.rate))
            }
            // The overflow rejected the request. There is no counter that could be blocked.
            AdmissionTarget::New => (),
        }
    }

    fn admit(&mut self, now_ms: i64, check: &CounterCheck, plan: &AdmissionPlan) {
        match plan.target {
            AdmissionTarget::Existing { slot, growth } => {
                let shard = self.guards.get_mut(plan.guard_index);
                let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) else { return };
                if growth > 0 {
                    slot.log.grow(growth);
                }
                slot.log.admit(now_ms);
            }
            AdmissionTarget::New => {
                // Until now, this counter may have been one of the newcomers in the overflow.
                let mut presence = OverflowPresence::NONE;
                if self.has_overflow(now_ms) {
                    let newest_ms =
                        self.with_overflow(check.limit, |it| it.newcomers.newest_ms(now_ms));
                    presence.newcomers_until_ms = newest_ms;
                }
                let Some(shard) = self.guards.get_mut(plan.guard_index) else { return };
                shard.1.insert(check, presence, now_ms);
            }
            AdmissionTarget::FullCounter { slot } => {
                let written_ms = self.admit_to_overflow(now_ms, check, |it| &mut it.full_counters);
                let shard = self.guards.get_mut(plan.guard_index);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.overflow.full_until_ms = written_ms;
                }
            }
            AdmissionTarget::SharedOverflow => {
                self.admit_to_overflow(now_ms, check, |it| &mut it.newcomers);
            }
        }
    }

    /// Writes an admission to the overflow and returns its time.
    fn admit_to_overflow(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        select_log: fn(&mut OverflowLogs) -> &mut SlidingWindowLog,
    ) -> i64 {
        let rate = check.rate;
        let written_ms = self.with_overflow(check.limit, |it| {
            let log = select_log(it);
            log.trim(now_ms, rate);
            if let Some(entries) = log.growth(rate) {
                log.grow(entries);
            }
            log.admit(now_ms);
            log.newest_ms(now_ms)
        });
        let until_ms = written_ms.saturating_add(to_ms(rate.window));
        self.counters.overflow_until_ms.fetch_max(until_ms, Ordering::AcqRel);
        written_ms
    }
}

#[cfg(test)]
mod tests;
