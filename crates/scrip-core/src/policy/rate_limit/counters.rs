//! The counters of one process: exact, sharded, and of bounded size.
//!
//! A request takes all of its counters at once, or none: their shards are locked in one order. A
//! live counter is never given up. When there is no room, newcomers of a row share one counter, its
//! *overflow*; and what may be somebody's there counts against it until it has left the window. The
//! same goes for a log that cannot grow: its admissions are lent a place.

mod shard;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use self::shard::{CounterShard, OverflowPresence};
use super::{
    CounterCheck, CounterKey, Rate, RateLimitName,
    sliding_window_log::{SlidingWindowLog, Verdict, to_ms},
};
use crate::time::Timestamp;

/// Why a request has to wait, and how long surely suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRejection {
    pub limit: RateLimitName,
    pub rate: Rate,
    pub retry_after: Duration,
}

#[derive(Debug)]
pub struct RateLimitCounters {
    shards: Vec<Mutex<CounterShard>>,
    /// By row. Locked after the shards.
    overflow: Mutex<Vec<OverflowLogs>>,
    /// Until when something in there may still count.
    overflow_until_ms: AtomicI64,
    capacity: CounterCapacity,
    /// Of chance, so that nobody can choose addresses that meet in one shard.
    hasher: RandomState,
    /// The shard to look through next.
    next_swept_shard: AtomicUsize,
}

/// Admissions of a row that have no place of their own.
#[derive(Debug, Default)]
struct OverflowLogs {
    /// The one counter of all newcomers.
    newcomers: SlidingWindowLog,
    /// Of counters whose logs could not grow. Never asked by itself.
    full_counters: SlidingWindowLog,
}

/// What all shards have together.
#[derive(Debug)]
struct CounterCapacity {
    counters: AtomicUsize,
    counters_max: usize,
    /// Places in logs.
    entries: AtomicUsize,
    entries_max: usize,
}

/// How full it is, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterUsage {
    pub counters: usize,
    pub counters_max: usize,
    /// Admissions that there is room for, over all counters.
    pub entries: usize,
    pub entries_max: usize,
}

const SHARDS: usize = 64;
/// Most counters see a few requests, and some two thousand.
const ENTRIES_PER_COUNTER: usize = 40;
const ENTRIES_MIN: usize = 256 * 1024;
/// Slots that a request looks through when more than half is taken.
const SLOTS_PER_SWEEP: usize = 8;

/// Where an admission is to be written.
#[derive(Debug, Clone, Copy)]
enum AdmissionTarget {
    /// At a counter that is there, which takes so many places more.
    Existing {
        slot: u32,
        growth: usize,
    },
    New,
    /// At the overflow: the counter is there, and its log cannot grow.
    FullCounter {
        slot: u32,
    },
    /// At the overflow: there is no room for a counter.
    SharedOverflow,
}

#[derive(Debug, Clone, Copy)]
struct AdmissionPlan {
    /// Which of the locked shards.
    guard: usize,
    target: AdmissionTarget,
    verdict: Verdict,
}

impl RateLimitCounters {
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        let places_max = counters_max.saturating_mul(ENTRIES_PER_COUNTER).max(ENTRIES_MIN);
        let overflow = RateLimitName::ALL.iter().map(|_| OverflowLogs::default()).collect();
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            overflow: Mutex::new(overflow),
            overflow_until_ms: AtomicI64::new(i64::MIN),
            capacity: CounterCapacity {
                counters: AtomicUsize::new(0),
                counters_max,
                entries: AtomicUsize::new(0),
                entries_max: places_max,
            },
            hasher: RandomState::new(),
            next_swept_shard: AtomicUsize::new(0),
        }
    }

    /// Counts a request on all of these, or on none.
    ///
    /// # Errors
    /// At least one refuses; the one that does so longest.
    pub fn count(&self, now: Timestamp, checks: &[CounterCheck]) -> Result<(), RateLimitRejection> {
        let now_ms = now.unix_ms;
        self.sweep_when_crowded(now_ms);
        let mut desk = LockedShards::new(self, checks);
        let plans: Vec<_> = checks.iter().map(|it| desk.plan(now_ms, it)).collect();
        if let Some(rejection) = longest_rejection(checks, &plans) {
            for (demand, plan) in checks.iter().zip(&plans) {
                desk.reject(now_ms, demand, plan);
            }
            return Err(rejection);
        }
        for (demand, plan) in checks.iter().zip(&plans) {
            desk.admit(now_ms, demand, plan);
        }
        Ok(())
    }

    /// Whether this counter would refuse. Nothing is counted; a block begins if one is due.
    ///
    /// # Errors
    /// It would.
    pub fn probe(&self, now: Timestamp, check: &CounterCheck) -> Result<(), RateLimitRejection> {
        let demands = std::slice::from_ref(check);
        let mut desk = LockedShards::new(self, demands);
        let plan = desk.plan(now.unix_ms, check);
        desk.reject(now.unix_ms, check, &plan);
        longest_rejection(demands, &[plan]).map_or(Ok(()), Err)
    }

    /// Gives back every counter that is over, one shard after the other.
    pub fn sweep(&self, now: Timestamp) {
        if self.capacity.is_crowded() {
            for shard in &self.shards {
                lock_ignoring_poison(shard).sweep(now.unix_ms, usize::MAX, &self.capacity);
            }
        }
    }

    #[must_use]
    pub fn usage(&self) -> CounterUsage {
        CounterUsage {
            counters: self.capacity.counters.load(Ordering::Relaxed),
            counters_max: self.capacity.counters_max,
            entries: self.capacity.entries.load(Ordering::Relaxed),
            entries_max: self.capacity.entries_max,
        }
    }

    /// A few slots of one shard, if nobody is there: whoever asks pays for somebody else's end.
    fn sweep_when_crowded(&self, now_ms: i64) {
        if !self.capacity.is_crowded() {
            return;
        }
        let turn = self.next_swept_shard.fetch_add(1, Ordering::Relaxed);
        let shard = turn.checked_rem(self.shards.len()).and_then(|it| self.shards.get(it));
        if let Some(Ok(mut shard)) = shard.map(Mutex::try_lock) {
            shard.sweep(now_ms, SLOTS_PER_SWEEP, &self.capacity);
        }
    }

    /// Counters of one address are in one shard, so that a request mostly locks two.
    fn shard_index(&self, key: &CounterKey) -> usize {
        let hash = match key {
            CounterKey::Address(network) | CounterKey::Pair(_, network) => {
                self.hasher.hash_one(network)
            }
            CounterKey::Digest(mark) => self.hasher.hash_one(mark),
        };
        let hash = usize::try_from(hash >> 32).unwrap_or_default();
        hash.checked_rem(self.shards.len()).unwrap_or_default()
    }
}

/// What refuses longest.
fn longest_rejection(
    checks: &[CounterCheck],
    plans: &[AdmissionPlan],
) -> Option<RateLimitRejection> {
    let refusal = |(demand, plan): (&CounterCheck, &AdmissionPlan)| match plan.verdict {
        Verdict::Allowed => None,
        Verdict::Exceeded { wait_ms } | Verdict::Blocked { wait_ms } => {
            let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
            Some(RateLimitRejection { limit: demand.limit, rate: demand.rate, retry_after: wait })
        }
    };
    checks.iter().zip(plans).filter_map(refusal).max_by_key(|it| it.retry_after)
}

/// A counter that panicked half way is no reason to stop counting.
fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shards of one request, locked.
struct LockedShards<'a> {
    counters: &'a RateLimitCounters,
    /// By number, which is the order they were locked in.
    guards: Vec<(usize, MutexGuard<'a, CounterShard>)>,
    overflow: Option<MutexGuard<'a, Vec<OverflowLogs>>>,
}

impl<'a> LockedShards<'a> {
    fn new(counters: &'a RateLimitCounters, checks: &[CounterCheck]) -> Self {
        let mut numbers: Vec<_> = checks.iter().map(|it| counters.shard_index(&it.key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let lock =
            |it: usize| counters.shards.get(it).map(|shard| (it, lock_ignoring_poison(shard)));
        let guards = numbers.into_iter().filter_map(lock).collect();
        Self { counters, guards, overflow: None }
    }

    fn plan(&mut self, now_ms: i64, check: &CounterCheck) -> AdmissionPlan {
        let number = self.counters.shard_index(&check.key);
        let guard = self.guards.iter().position(|it| it.0 == number).unwrap_or_default();
        let rate = check.rate;
        let slot = self.guards.get(guard).and_then(|it| it.1.find(check));
        let Some(slot) = slot else {
            if !self.counters.capacity.reserve_counter() {
                let verdict =
                    self.with_overflow(check.limit, |it| it.newcomers.verdict(now_ms, rate, 0));
                return AdmissionPlan { guard, target: AdmissionTarget::SharedOverflow, verdict };
            }
            let any = OverflowPresence { newcomers_until_ms: i64::MAX, ..OverflowPresence::NONE };
            let verdict = SlidingWindowLog::default().verdict(
                now_ms,
                rate,
                self.overflow_count(now_ms, check, any),
            );
            return AdmissionPlan { guard, target: AdmissionTarget::New, verdict };
        };
        let (growth, elsewhere) = self.reserve_entry(now_ms, check, guard, slot);
        let (place, elsewhere) = match growth {
            Some(growth) => (AdmissionTarget::Existing { slot, growth }, elsewhere),
            None => (
                AdmissionTarget::FullCounter { slot },
                OverflowPresence { full_until_ms: i64::MAX, ..elsewhere },
            ),
        };
        let overflow_count = self.overflow_count(now_ms, check, elsewhere);
        let verdict = self.verdict(now_ms, check, guard, slot, overflow_count);
        AdmissionPlan { guard, target: place, verdict }
    }

    /// Makes room in a log: by how much it has to grow for one more, or nothing when it would have
    /// to and cannot; and what of it may stand elsewhere.
    fn reserve_entry(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        guard: usize,
        slot: u32,
    ) -> (Option<usize>, OverflowPresence) {
        let budget = &self.counters.capacity;
        let slot = self.guards.get_mut(guard).and_then(|it| it.1.get_mut(slot));
        let Some(slot) = slot else { return (None, OverflowPresence::NONE) };
        slot.log.trim(now_ms, check.rate);
        budget.release_entries(slot.log.shrink());
        let growth = slot.log.growth(check.rate);
        let paid = growth.map(|it| budget.reserve_entries(it).then_some(it));
        (paid.unwrap_or(Some(0)), slot.overflow)
    }

    fn verdict(
        &self,
        now_ms: i64,
        check: &CounterCheck,
        guard: usize,
        slot: u32,
        overflow_count: usize,
    ) -> Verdict {
        let slot = self.guards.get(guard).and_then(|it| it.1.get(slot));
        slot.map_or(Verdict::Allowed, |it| it.log.verdict(now_ms, check.rate, overflow_count))
    }

    /// What stands in the overflow of the row, and may be of this counter.
    fn overflow_count(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        presence: OverflowPresence,
    ) -> usize {
        if !self.has_overflow(now_ms) {
            return 0;
        }
        let (
            rate,
            OverflowPresence { newcomers_until_ms: shared_until_ms, full_until_ms: lent_until_ms },
        ) = (check.rate, presence);
        self.with_overflow(check.limit, |it| {
            let shared = it.newcomers.count_until(shared_until_ms, now_ms, rate);
            shared.saturating_add(it.full_counters.count_until(lent_until_ms, now_ms, rate))
        })
    }

    /// Whoever wrote there held a shard's lock, which we may hold now.
    fn has_overflow(&self, now_ms: i64) -> bool {
        self.counters.overflow_until_ms.load(Ordering::Acquire) >= now_ms
    }

    fn with_overflow<T: Default>(
        &mut self,
        limit: RateLimitName,
        with: impl FnOnce(&mut OverflowLogs) -> T,
    ) -> T {
        let counters = self.counters;
        let overflow =
            self.overflow.get_or_insert_with(|| lock_ignoring_poison(&counters.overflow));
        overflow.get_mut(limit.index()).map(with).unwrap_or_default()
    }

    /// Takes back what was planned, and begins the blocks that are due.
    fn reject(&mut self, now_ms: i64, check: &CounterCheck, plan: &AdmissionPlan) {
        let is_over = matches!(plan.verdict, Verdict::Exceeded { .. });
        let blocks = is_over && check.rate.block_duration().is_some();
        match plan.target {
            AdmissionTarget::Existing { growth, .. } => {
                self.counters.capacity.release_entries(growth)
            }
            AdmissionTarget::New => self.counters.capacity.release_counter(),
            AdmissionTarget::FullCounter { .. } | AdmissionTarget::SharedOverflow => (),
        }
        if !blocks {
            return;
        }
        match plan.target {
            AdmissionTarget::Existing { slot, .. } | AdmissionTarget::FullCounter { slot } => {
                let shard = self.guards.get_mut(plan.guard);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.log.block(now_ms, check.rate);
                }
            }
            AdmissionTarget::SharedOverflow => {
                self.with_overflow(check.limit, |it| it.newcomers.block(now_ms, check.rate))
            }
            // Refused for what it may have lent. There is nothing that could be blocked.
            AdmissionTarget::New => (),
        }
    }

    fn admit(&mut self, now_ms: i64, check: &CounterCheck, plan: &AdmissionPlan) {
        match plan.target {
            AdmissionTarget::Existing { slot, growth } => {
                let shard = self.guards.get_mut(plan.guard);
                let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) else { return };
                if growth > 0 {
                    slot.log.grow(growth);
                }
                slot.log.admit(now_ms);
            }
            AdmissionTarget::New => {
                // It may have been a newcomer at the overflow until now.
                let mut elsewhere = OverflowPresence::NONE;
                if self.has_overflow(now_ms) {
                    let newest_ms =
                        self.with_overflow(check.limit, |it| it.newcomers.newest_ms(now_ms));
                    elsewhere.newcomers_until_ms = newest_ms;
                }
                let Some(shard) = self.guards.get_mut(plan.guard) else { return };
                shard.1.insert(check, elsewhere, now_ms);
            }
            AdmissionTarget::FullCounter { slot } => {
                let written_ms = self.admit_to_overflow(now_ms, check, |it| &mut it.full_counters);
                let shard = self.guards.get_mut(plan.guard);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.overflow.full_until_ms = written_ms;
                }
            }
            AdmissionTarget::SharedOverflow => {
                self.admit_to_overflow(now_ms, check, |it| &mut it.newcomers);
            }
        }
    }

    /// Writes an admission to the overflow; as of when.
    fn admit_to_overflow(
        &mut self,
        now_ms: i64,
        check: &CounterCheck,
        at: fn(&mut OverflowLogs) -> &mut SlidingWindowLog,
    ) -> i64 {
        let rate = check.rate;
        let written_ms = self.with_overflow(check.limit, |it| {
            let log = at(it);
            log.trim(now_ms, rate);
            if let Some(places) = log.growth(rate) {
                log.grow(places);
            }
            log.admit(now_ms);
            log.newest_ms(now_ms)
        });
        let until_ms = written_ms.saturating_add(to_ms(rate.window));
        self.counters.overflow_until_ms.fetch_max(until_ms, Ordering::AcqRel);
        written_ms
    }
}

impl CounterCapacity {
    fn is_crowded(&self) -> bool {
        self.counters.load(Ordering::Relaxed) > self.counters_max / 2
            || self.entries.load(Ordering::Relaxed) > self.entries_max / 2
    }

    /// With its first places, which are part of its price.
    fn reserve_counter(&self) -> bool {
        try_add(&self.counters, 1, self.counters_max)
    }

    fn release_counter(&self) {
        self.counters.fetch_sub(1, Ordering::Relaxed);
    }

    fn reserve_entries(&self, count: usize) -> bool {
        try_add(&self.entries, count, self.entries_max)
    }

    fn release_entries(&self, count: usize) {
        if count > 0 {
            self.entries.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

fn try_add(of: &AtomicUsize, count: usize, most: usize) -> bool {
    let more = |it: usize| it.checked_add(count).filter(|it| *it <= most);
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

#[cfg(test)]
mod tests;
