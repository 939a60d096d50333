//! The counts of this node.
//!
//! A decision is made in memory, on the records of the store as they were at most a second ago and
//! on everything that this node has counted since. New counts are written behind, within a second,
//! so that no request waits for them. Nodes therefore see each other's counts about two seconds
//! late, and a crash loses the counts of the last second.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Error, Timestamp,
    id::TenantId,
    metrics::Counter,
    policy::{
        Caller,
        guessing_budget::{
            CallerClass, DAY, FingerprintDisclosure, GuessBucket, GuessBucketKind, GuessBudget,
            GuessLimits, GuessRecord, QUARTER, numbers::CountedNumber,
        },
        tenant::quota::QuotaLimit,
    },
    store::{StoreError, guesses::GuessStore},
};

/// For so long the records that were read from the store are used without reading them again.
const BUCKET_FRESH_FOR: Duration = Duration::from_secs(1);
/// After so long without a read a bucket is dropped from memory.
const BUCKET_IDLE_MAX: Duration = Duration::from_secs(10);
/// Counts that wait to be written. With more than that the storage is away, and counting stops.
const PENDING_MAX: usize = 100_000;

/// One for each process, shared by all of its requests.
#[derive(Debug, Default)]
pub struct GuessLedger {
    state: Mutex<LedgerState>,
    pub exhausted: ExhaustedCounters,
}

/// How many times each budget was spent, for the metric.
#[derive(Debug, Default)]
pub struct ExhaustedCounters([Counter; GuessBudget::ALL.len()]);

impl ExhaustedCounters {
    pub(crate) fn count(&self, budget: GuessBudget) {
        if let Some((_, counter)) = self.iter_counters().find(|(it, _)| *it == budget) {
            counter.increment();
        }
    }

    fn iter_counters(&self) -> impl Iterator<Item = (GuessBudget, &Counter)> {
        GuessBudget::ALL.into_iter().zip(&self.0)
    }

    /// Label and count of each.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.iter_counters().map(|(budget, counter)| (budget.as_str(), counter.get()))
    }
}

pub(super) type BucketKey = (TenantId, GuessBucket);

#[derive(Debug, Default)]
pub(super) struct LedgerState {
    buckets: HashMap<BucketKey, LoadedBucket>,
    /// Counted here and not known to be stored, by number.
    pending: HashMap<BucketKey, HashMap<[u8; 16], CountTimes>>,
    pending_count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CountTimes {
    counted_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Debug)]
struct LoadedBucket {
    loaded_at: Timestamp,
    last_counted: LastCounted,
}

/// Who is counted, by which limits, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountRequest {
    tenant: TenantId,
    application_bucket: GuessBucket,
    limits: GuessLimits,
    now: Timestamp,
}

impl CountRequest {
    pub(super) fn for_caller(caller: &Caller, limits: GuessLimits, now: Timestamp) -> Self {
        let id = caller.application().0;
        let name = caller.tenant().keys.guess_digest(&[b"application", id.as_bytes()]);
        let application =
            GuessBucket::new(CallerClass::for_caller(caller), GuessBucketKind::Application, name);
        Self { tenant: caller.tenant().id, application_bucket: application, limits, now }
    }
}

/// What came of counting.
#[derive(Debug)]
pub(crate) struct GuessCountResult {
    pub(crate) disclosure: FingerprintDisclosure,
    /// The budgets that this call spent the last of.
    pub(crate) exhausted: Vec<GuessBudget>,
}

impl GuessLedger {
    pub(super) fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the numbers of one token, or none of them when a budget is spent already.
    pub(super) async fn count(
        &self,
        store: &(impl GuessStore + ?Sized),
        counting: CountRequest,
        numbers: &[CountedNumber],
    ) -> Result<GuessCountResult, Error> {
        let CountRequest { tenant, application_bucket: application, limits, now } = counting;
        let mut buckets: Vec<_> = numbers.iter().map(|it| it.group).collect();
        if limits.application != QuotaLimit::Off {
            buckets.push(application);
        }
        self.load(store, tenant, &buckets, now).await?;
        let mut state = self.lock();
        state.check_pending_capacity(numbers.len())?;
        let mut spent = Vec::new();
        for it in numbers {
            if !state.is_within_limits(tenant, it.group, &limits, now)
                || is_reached(
                    limits.application,
                    state.distinct_count(tenant, application, now, DAY),
                )
            {
                return Ok(GuessCountResult {
                    disclosure: FingerprintDisclosure::Withheld,
                    exhausted: spent,
                });
            }
            state.count_number(counting, it, &mut spent);
        }
        Ok(GuessCountResult { disclosure: FingerprintDisclosure::Allowed, exhausted: spent })
    }

    /// Reads buckets from the store that are not in memory, or not fresh.
    pub(super) async fn load(
        &self,
        store: &(impl GuessStore + ?Sized),
        tenant: TenantId,
        buckets: &[GuessBucket],
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut stale = buckets.to_vec();
        stale.sort_unstable();
        stale.dedup();
        {
            let state = self.lock();
            stale.retain(|bucket| {
                let loaded = state.buckets.get(&(tenant, *bucket));
                loaded.is_none_or(|it| now >= it.loaded_at.plus(BUCKET_FRESH_FOR))
            });
        }
        if stale.is_empty() {
            return Ok(());
        }
        let records = store.find_guesses(tenant, &stale, now).await?;
        let mut state = self.lock();
        for bucket in stale {
            let pending = state.pending.get(&(tenant, bucket)).into_iter().flatten();
            let pending: Vec<_> =
                pending.map(|(number, times)| (*number, times.counted_at)).collect();
            let loaded = state.loaded_bucket(tenant, bucket, now);
            loaded.loaded_at = now;
            for (number, at) in pending {
                loaded.last_counted.record(number, at);
            }
        }
        for it in records {
            state
                .loaded_bucket(tenant, it.bucket, now)
                .last_counted
                .record(it.number_digest, it.counted_at);
        }
        Ok(())
    }

    /// Writes what waits to be written, and drops from memory what was not used for a while.
    ///
    /// # Errors
    /// The store did not take it. It waits on.
    pub async fn flush(
        &self,
        store: &(impl GuessStore + ?Sized),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tenants: HashMap<TenantId, Vec<GuessRecord>> = HashMap::new();
        {
            let mut state = self.lock();
            state.buckets.retain(|_, it| now < it.loaded_at.plus(BUCKET_IDLE_MAX));
            for ((tenant, bucket), numbers) in &state.pending {
                let record = |(number, times): (&[u8; 16], &CountTimes)| {
                    let CountTimes { counted_at: at, expires_at } = *times;
                    GuessRecord {
                        bucket: *bucket,
                        number_digest: *number,
                        counted_at: at,
                        expires_at,
                    }
                };
                tenants.entry(*tenant).or_default().extend(numbers.iter().map(record));
            }
        }
        for (tenant, records) in tenants {
            store.insert_guesses(tenant, records.clone()).await?;
            let mut state = self.lock();
            for record in &records {
                state.mark_written(tenant, record);
            }
        }
        Ok(())
    }
}

impl LedgerState {
    fn loaded_bucket(
        &mut self,
        tenant: TenantId,
        bucket: GuessBucket,
        now: Timestamp,
    ) -> &mut LoadedBucket {
        let new = || LoadedBucket { loaded_at: now, last_counted: LastCounted::default() };
        self.buckets.entry((tenant, bucket)).or_insert_with(new)
    }

    pub(super) fn distinct_count(
        &self,
        tenant: TenantId,
        bucket: GuessBucket,
        now: Timestamp,
        window: Duration,
    ) -> u64 {
        let loaded = self.buckets.get(&(tenant, bucket));
        loaded.map_or(0, |it| it.last_counted.distinct_count(now, window))
    }

    /// When more waits than that, the storage has been away for long: better no answer than one that
    /// is not counted.
    pub(super) fn check_pending_capacity(&self, more: usize) -> Result<(), Error> {
        if self.pending_count.saturating_add(more) > PENDING_MAX {
            return Err(Error::Unavailable("the guessing budget cannot be written".into()));
        }
        Ok(())
    }

    fn is_within_limits(
        &self,
        tenant: TenantId,
        group: GuessBucket,
        limits: &GuessLimits,
        now: Timestamp,
    ) -> bool {
        !is_reached(limits.day, self.distinct_count(tenant, group, now, DAY))
            && !is_reached(limits.quarter, self.distinct_count(tenant, group, now, QUARTER))
    }

    fn count_number(
        &mut self,
        counting: CountRequest,
        it: &CountedNumber,
        spent: &mut Vec<GuessBudget>,
    ) {
        let CountRequest { tenant, application_bucket: application, limits, now } = counting;
        let group = &self.loaded_bucket(tenant, it.group, now).last_counted;
        let is_repeat = group.contains(&it.number, now, DAY);
        let is_known = group.contains(&it.number, now, QUARTER);
        let is_first = group.distinct_count(now, DAY) == 0;
        self.count_pending((tenant, it.group), it.number, now, QUARTER);
        let in_day = self.distinct_count(tenant, it.group, now, DAY);
        if !is_repeat && is_reached(limits.day, in_day) {
            spent.push(GuessBudget::Day);
        }
        let in_quarter = self.distinct_count(tenant, it.group, now, QUARTER);
        if !is_known && is_reached(limits.quarter, in_quarter) {
            spent.push(GuessBudget::Quarter);
        }
        if limits.application == QuotaLimit::Off || is_repeat || is_first {
            return;
        }
        self.count_pending((tenant, application), it.number, now, DAY);
        let of_application = self.distinct_count(tenant, application, now, DAY);
        if is_reached(limits.application, of_application) {
            spent.push(GuessBudget::Application);
        }
    }

    /// Counts it here, and has it written.
    pub(super) fn count_pending(
        &mut self,
        key: BucketKey,
        number: [u8; 16],
        now: Timestamp,
        window: Duration,
    ) {
        let (tenant, bucket) = key;
        let counted = &mut self.loaded_bucket(tenant, bucket, now).last_counted;
        counted.record(number, now);
        counted.forget_before(now.minus(QUARTER));
        let times = CountTimes { counted_at: now, expires_at: now.plus(window) };
        let numbers = self.pending.entry(key).or_default();
        if numbers.insert(number, times).is_none() {
            self.pending_count = self.pending_count.saturating_add(1);
        }
    }

    /// Unless it was counted again in the meantime, it does not wait any more.
    fn mark_written(&mut self, tenant: TenantId, record: &GuessRecord) {
        let key = (tenant, record.bucket);
        let Some(numbers) = self.pending.get_mut(&key) else { return };
        let times = CountTimes { counted_at: record.counted_at, expires_at: record.expires_at };
        if numbers.get(&record.number_digest) == Some(&times) {
            numbers.remove(&record.number_digest);
            self.pending_count = self.pending_count.saturating_sub(1);
        }
        if numbers.is_empty() {
            self.pending.remove(&key);
        }
    }
}

/// When each distinct number was last counted. Only the last time matters: every window that ends
/// now and holds an earlier time of the same number holds that one as well, and windows that ended
/// earlier were decided then.
#[derive(Debug, Default, Clone)]
struct LastCounted(HashMap<[u8; 16], i64>);

impl LastCounted {
    fn record(&mut self, number: [u8; 16], at: Timestamp) {
        let last = self.0.entry(number).or_insert(at.unix_ms);
        *last = at.unix_ms.max(*last);
    }

    /// Distinct numbers counted within the window that ends now. A number leaves the window when it
    /// is exactly as old as the window is long.
    fn distinct_count(&self, now: Timestamp, window: Duration) -> u64 {
        let since = now.minus(window).unix_ms;
        let within = self.0.values().filter(|at| **at > since).count();
        u64::try_from(within).unwrap_or(u64::MAX)
    }

    fn contains(&self, number: &[u8; 16], now: Timestamp, window: Duration) -> bool {
        let since = now.minus(window).unix_ms;
        self.0.get(number).is_some_and(|at| *at > since)
    }

    fn forget_before(&mut self, since: Timestamp) {
        self.0.retain(|_, at| *at > since.unix_ms);
    }
}

/// Whether so many are all that a limit allows.
pub(super) fn is_reached(limit: QuotaLimit, counted: u64) -> bool {
    match limit {
        QuotaLimit::Off => false,
        QuotaLimit::Count(most) => counted >= most,
    }
}

#[cfg(test)]
mod tests;
