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

use self::shard::{Elsewhere, Shard};
use super::{
    Demand, Rate, Row, Subject,
    log::{Log, Verdict, ms},
};
use crate::time::Timestamp;

/// Why a request has to wait, and how long surely suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    pub row: Row,
    pub rate: Rate,
    pub wait: Duration,
}

#[derive(Debug)]
pub struct Counters {
    shards: Vec<Mutex<Shard>>,
    /// By row. Locked after the shards.
    overflow: Mutex<Vec<Overflow>>,
    /// Until when something in there may still count.
    overflow_until_ms: AtomicI64,
    budget: Budget,
    /// Of chance, so that nobody can choose addresses that meet in one shard.
    hasher: RandomState,
    /// The shard to look through next.
    sweeping: AtomicUsize,
}

/// Admissions of a row that have no place of their own.
#[derive(Debug, Default)]
struct Overflow {
    /// The one counter of all newcomers.
    shared: Log,
    /// Of counters whose logs could not grow. Never asked by itself.
    lent: Log,
}

/// What all shards have together.
#[derive(Debug)]
struct Budget {
    counters: AtomicUsize,
    counters_max: usize,
    /// Places in logs.
    places: AtomicUsize,
    places_max: usize,
}

/// How full it is, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    pub counters: usize,
    pub counters_max: usize,
    /// Admissions that there is room for, over all counters.
    pub places: usize,
    pub places_max: usize,
}

const SHARDS: usize = 64;
/// Most counters see a few requests, and some two thousand.
const PLACES_PER_COUNTER: usize = 40;
const PLACES_MIN: usize = 256 * 1024;
/// Slots that a request looks through when more than half is taken.
const SWEPT_AT_ONCE: usize = 8;

/// Where an admission is to be written.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// At a counter that is there, which takes so many places more.
    Own {
        slot: u32,
        growth: usize,
    },
    New,
    /// At the overflow: the counter is there, and its log cannot grow.
    Lent {
        slot: u32,
    },
    /// At the overflow: there is no room for a counter.
    Shared,
}

#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Which of the locked shards.
    guard: usize,
    place: Place,
    verdict: Verdict,
}

impl Counters {
    #[must_use]
    pub fn new(counters_max: usize) -> Self {
        let places_max = counters_max.saturating_mul(PLACES_PER_COUNTER).max(PLACES_MIN);
        let overflow = Row::ALL.iter().map(|_| Overflow::default()).collect();
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            overflow: Mutex::new(overflow),
            overflow_until_ms: AtomicI64::new(i64::MIN),
            budget: Budget {
                counters: AtomicUsize::new(0),
                counters_max,
                places: AtomicUsize::new(0),
                places_max,
            },
            hasher: RandomState::new(),
            sweeping: AtomicUsize::new(0),
        }
    }

    /// Counts a request on all of these, or on none.
    ///
    /// # Errors
    /// At least one refuses; the one that does so longest.
    pub fn count(&self, now: Timestamp, demands: &[Demand]) -> Result<(), Refused> {
        let now_ms = now.unix_ms;
        self.sweep_when_crowded(now_ms);
        let mut desk = Desk::new(self, demands);
        let plans: Vec<_> = demands.iter().map(|it| desk.plan(now_ms, it)).collect();
        if let Some(refused) = longest(demands, &plans) {
            for (demand, plan) in demands.iter().zip(&plans) {
                desk.refuse(now_ms, demand, plan);
            }
            return Err(refused);
        }
        for (demand, plan) in demands.iter().zip(&plans) {
            desk.admit(now_ms, demand, plan);
        }
        Ok(())
    }

    /// Whether this counter would refuse. Nothing is counted; a block begins if one is due.
    ///
    /// # Errors
    /// It would.
    pub fn ask(&self, now: Timestamp, demand: &Demand) -> Result<(), Refused> {
        let demands = std::slice::from_ref(demand);
        let mut desk = Desk::new(self, demands);
        let plan = desk.plan(now.unix_ms, demand);
        desk.refuse(now.unix_ms, demand, &plan);
        longest(demands, &[plan]).map_or(Ok(()), Err)
    }

    /// Gives back every counter that is over, one shard after the other.
    pub fn sweep(&self, now: Timestamp) {
        if self.budget.is_crowded() {
            for shard in &self.shards {
                locked(shard).sweep(now.unix_ms, usize::MAX, &self.budget);
            }
        }
    }

    #[must_use]
    pub fn fullness(&self) -> Fullness {
        Fullness {
            counters: self.budget.counters.load(Ordering::Relaxed),
            counters_max: self.budget.counters_max,
            places: self.budget.places.load(Ordering::Relaxed),
            places_max: self.budget.places_max,
        }
    }

    /// A few slots of one shard, if nobody is there: whoever asks pays for somebody else's end.
    fn sweep_when_crowded(&self, now_ms: i64) {
        if !self.budget.is_crowded() {
            return;
        }
        let turn = self.sweeping.fetch_add(1, Ordering::Relaxed);
        let shard = turn.checked_rem(self.shards.len()).and_then(|it| self.shards.get(it));
        if let Some(Ok(mut shard)) = shard.map(Mutex::try_lock) {
            shard.sweep(now_ms, SWEPT_AT_ONCE, &self.budget);
        }
    }

    /// Counters of one address are in one shard, so that a request mostly locks two.
    fn shard_of(&self, subject: &Subject) -> usize {
        let hash = match subject {
            Subject::Address(network) | Subject::Pair(_, network) => self.hasher.hash_one(network),
            Subject::Marked(mark) => self.hasher.hash_one(mark),
        };
        let hash = usize::try_from(hash >> 32).unwrap_or_default();
        hash.checked_rem(self.shards.len()).unwrap_or_default()
    }
}

/// What refuses longest.
fn longest(demands: &[Demand], plans: &[Plan]) -> Option<Refused> {
    let refusal = |(demand, plan): (&Demand, &Plan)| match plan.verdict {
        Verdict::Room => None,
        Verdict::Over { wait_ms } | Verdict::Blocked { wait_ms } => {
            let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
            Some(Refused { row: demand.row, rate: demand.rate, wait })
        }
    };
    demands.iter().zip(plans).filter_map(refusal).max_by_key(|it| it.wait)
}

/// A counter that panicked half way is no reason to stop counting.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shards of one request, locked.
struct Desk<'a> {
    counters: &'a Counters,
    /// By number, which is the order they were locked in.
    guards: Vec<(usize, MutexGuard<'a, Shard>)>,
    overflow: Option<MutexGuard<'a, Vec<Overflow>>>,
}

impl<'a> Desk<'a> {
    fn new(counters: &'a Counters, demands: &[Demand]) -> Self {
        let mut numbers: Vec<_> = demands.iter().map(|it| counters.shard_of(&it.subject)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let lock = |it: usize| counters.shards.get(it).map(|shard| (it, locked(shard)));
        let guards = numbers.into_iter().filter_map(lock).collect();
        Self { counters, guards, overflow: None }
    }

    fn plan(&mut self, now_ms: i64, demand: &Demand) -> Plan {
        let number = self.counters.shard_of(&demand.subject);
        let guard = self.guards.iter().position(|it| it.0 == number).unwrap_or_default();
        let rate = demand.rate;
        let slot = self.guards.get(guard).and_then(|it| it.1.find(demand));
        let Some(slot) = slot else {
            if !self.counters.budget.take_counter() {
                let verdict = self.overflow(demand.row, |it| it.shared.verdict(now_ms, rate, 0));
                return Plan { guard, place: Place::Shared, verdict };
            }
            let any = Elsewhere { shared_until_ms: i64::MAX, ..Elsewhere::NONE };
            let verdict = Log::default().verdict(now_ms, rate, self.lent(now_ms, demand, any));
            return Plan { guard, place: Place::New, verdict };
        };
        let (growth, elsewhere) = self.prepare(now_ms, demand, guard, slot);
        let (place, elsewhere) = match growth {
            Some(growth) => (Place::Own { slot, growth }, elsewhere),
            None => (Place::Lent { slot }, Elsewhere { lent_until_ms: i64::MAX, ..elsewhere }),
        };
        let lent = self.lent(now_ms, demand, elsewhere);
        let verdict = self.verdict(now_ms, demand, guard, slot, lent);
        Plan { guard, place, verdict }
    }

    /// Makes room in a log: by how much it has to grow for one more, or nothing when it would have
    /// to and cannot; and what of it may stand elsewhere.
    fn prepare(
        &mut self,
        now_ms: i64,
        demand: &Demand,
        guard: usize,
        slot: u32,
    ) -> (Option<usize>, Elsewhere) {
        let budget = &self.counters.budget;
        let slot = self.guards.get_mut(guard).and_then(|it| it.1.get_mut(slot));
        let Some(slot) = slot else { return (None, Elsewhere::NONE) };
        slot.log.trim(now_ms, demand.rate);
        budget.give_places(slot.log.shrink());
        let growth = slot.log.growth(demand.rate);
        let paid = growth.map(|it| budget.take_places(it).then_some(it));
        (paid.unwrap_or(Some(0)), slot.elsewhere)
    }

    fn verdict(
        &self,
        now_ms: i64,
        demand: &Demand,
        guard: usize,
        slot: u32,
        lent: usize,
    ) -> Verdict {
        let slot = self.guards.get(guard).and_then(|it| it.1.get(slot));
        slot.map_or(Verdict::Room, |it| it.log.verdict(now_ms, demand.rate, lent))
    }

    /// What stands in the overflow of the row, and may be of this counter.
    fn lent(&mut self, now_ms: i64, demand: &Demand, elsewhere: Elsewhere) -> usize {
        if !self.overflows(now_ms) {
            return 0;
        }
        let (rate, Elsewhere { shared_until_ms, lent_until_ms }) = (demand.rate, elsewhere);
        self.overflow(demand.row, |it| {
            let shared = it.shared.count_until(shared_until_ms, now_ms, rate);
            shared.saturating_add(it.lent.count_until(lent_until_ms, now_ms, rate))
        })
    }

    /// Whoever wrote there held a shard's lock, which we may hold now.
    fn overflows(&self, now_ms: i64) -> bool {
        self.counters.overflow_until_ms.load(Ordering::Acquire) >= now_ms
    }

    fn overflow<T: Default>(&mut self, row: Row, with: impl FnOnce(&mut Overflow) -> T) -> T {
        let counters = self.counters;
        let overflow = self.overflow.get_or_insert_with(|| locked(&counters.overflow));
        overflow.get_mut(row.index()).map(with).unwrap_or_default()
    }

    /// Takes back what was planned, and begins the blocks that are due.
    fn refuse(&mut self, now_ms: i64, demand: &Demand, plan: &Plan) {
        let is_over = matches!(plan.verdict, Verdict::Over { .. });
        let blocks = is_over && demand.rate.block().is_some();
        match plan.place {
            Place::Own { growth, .. } => self.counters.budget.give_places(growth),
            Place::New => self.counters.budget.give_counter(),
            Place::Lent { .. } | Place::Shared => (),
        }
        if !blocks {
            return;
        }
        match plan.place {
            Place::Own { slot, .. } | Place::Lent { slot } => {
                let shard = self.guards.get_mut(plan.guard);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.log.block(now_ms, demand.rate);
                }
            }
            Place::Shared => self.overflow(demand.row, |it| it.shared.block(now_ms, demand.rate)),
            // Refused for what it may have lent. There is nothing that could be blocked.
            Place::New => (),
        }
    }

    fn admit(&mut self, now_ms: i64, demand: &Demand, plan: &Plan) {
        match plan.place {
            Place::Own { slot, growth } => {
                let shard = self.guards.get_mut(plan.guard);
                let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) else { return };
                if growth > 0 {
                    slot.log.grow(growth);
                }
                slot.log.admit(now_ms);
            }
            Place::New => {
                // It may have been a newcomer at the overflow until now.
                let mut elsewhere = Elsewhere::NONE;
                if self.overflows(now_ms) {
                    let newest_ms = self.overflow(demand.row, |it| it.shared.newest_ms(now_ms));
                    elsewhere.shared_until_ms = newest_ms;
                }
                let Some(shard) = self.guards.get_mut(plan.guard) else { return };
                shard.1.insert(demand, elsewhere, now_ms);
            }
            Place::Lent { slot } => {
                let written_ms = self.lend(now_ms, demand, |it| &mut it.lent);
                let shard = self.guards.get_mut(plan.guard);
                if let Some(slot) = shard.and_then(|it| it.1.get_mut(slot)) {
                    slot.elsewhere.lent_until_ms = written_ms;
                }
            }
            Place::Shared => {
                self.lend(now_ms, demand, |it| &mut it.shared);
            }
        }
    }

    /// Writes an admission to the overflow; as of when.
    fn lend(&mut self, now_ms: i64, demand: &Demand, at: fn(&mut Overflow) -> &mut Log) -> i64 {
        let rate = demand.rate;
        let written_ms = self.overflow(demand.row, |it| {
            let log = at(it);
            log.trim(now_ms, rate);
            if let Some(places) = log.growth(rate) {
                log.grow(places);
            }
            log.admit(now_ms);
            log.newest_ms(now_ms)
        });
        let until_ms = written_ms.saturating_add(ms(rate.window));
        self.counters.overflow_until_ms.fetch_max(until_ms, Ordering::AcqRel);
        written_ms
    }
}

impl Budget {
    fn is_crowded(&self) -> bool {
        self.counters.load(Ordering::Relaxed) > self.counters_max / 2
            || self.places.load(Ordering::Relaxed) > self.places_max / 2
    }

    /// With its first places, which are part of its price.
    fn take_counter(&self) -> bool {
        take(&self.counters, 1, self.counters_max)
    }

    fn give_counter(&self) {
        self.counters.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_places(&self, count: usize) -> bool {
        take(&self.places, count, self.places_max)
    }

    fn give_places(&self, count: usize) {
        if count > 0 {
            self.places.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

fn take(of: &AtomicUsize, count: usize, most: usize) -> bool {
    let more = |it: usize| it.checked_add(count).filter(|it| *it <= most);
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

#[cfg(test)]
mod tests;
