//! The guess counts of this node.
//!
//! A decision uses the stored records, at most one second old, and everything that this node has
//! counted since. New counts are written to the store in the background, within a second, so
//! requests do not wait for them. Nodes therefore see each other's counts about two seconds late,
//! and a crash loses the counts of the last second.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Error, Timestamp,
    equality::{
        CallerClass, GuessBucket, GuessBucketKind, GuessRecord, GuessStore,
        bucket::{DAY, FingerprintDisclosure, GuessBudget, GuessLimits, QUARTER},
        numbers::CountedNumber,
    },
    policy::{Caller, tenant::quota::QuotaLimit},
    types::{StoreError, id::TenantId, metrics::Counter},
};

/// How long a loaded bucket is used before its records are read from the store again.
const BUCKET_AGE_MAX: Duration = Duration::from_secs(1);
/// A bucket that was not loaded from the store for this long is evicted from memory.
const BUCKET_IDLE_MAX: Duration = Duration::from_secs(10);
/// The maximum number of counts of a tenant that wait to be written. More counts wait only if the
/// store has been unavailable for long. Counting then fails, for this tenant only.
const TENANT_PENDING_MAX: usize = 25_000;
/// The counts of one write transaction. Other writes need not wait for all counts of a tenant.
const FLUSH_ROWS_MAX: usize = 500;

/// Counts the guesses of this node. All requests of a process share one ledger.
#[derive(Debug, Default)]
pub struct GuessLedger {
    state: Mutex<LedgerState>,
    pub exhausted: ExhaustedCounters,
}

/// How many times each budget was exhausted, for the metric.
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

    /// The label and the count of each budget.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.iter_counters().map(|(budget, counter)| (budget.as_str(), counter.get()))
    }
}

pub(super) type BucketKey = (TenantId, GuessBucket);

#[derive(Debug, Default)]
pub(super) struct LedgerState {
    buckets: HashMap<BucketKey, LoadedBucket>,
    /// Counts of this node that are not known to be stored, by number.
    pending: HashMap<BucketKey, HashMap<[u8; 16], CountTimes>>,
    /// The number of pending counts of each tenant that has some.
    pending_counts: HashMap<TenantId, usize>,
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

/// The tenant, application bucket, limits and time of one call of [`GuessLedger::count`].
#[derive(Debug, Clone, Copy)]
pub(super) struct CountRequest {
    tenant: TenantId,
    application_bucket: GuessBucket,
    limits: GuessLimits,
    now: Timestamp,
}

impl CountRequest {
    pub(super) fn for_caller(caller: &Caller, limits: GuessLimits, now: Timestamp) -> Self {
        let id = caller.guessing_application().0;
        let digest = caller.tenant().keys.guess_digest(&[b"application", id.as_bytes()]);
        let class = CallerClass::for_caller(caller);
        let application_bucket = GuessBucket::new(class, GuessBucketKind::Application, digest);
        Self { tenant: caller.tenant().id, application_bucket, limits, now }
    }
}

/// The result of counting.
#[derive(Debug)]
pub(super) struct GuessCountResult {
    pub(super) disclosure: FingerprintDisclosure,
    /// The budgets that this call exhausted.
    pub(super) exhausted: Vec<GuessBudget>,
}

impl GuessLedger {
    pub(super) fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the numbers of one token in their order. Stops before the first number with an
    /// exhausted budget: the numbers before it stay counted, and the fingerprint is withheld.
    pub(super) async fn count(
        &self,
        store: &(impl GuessStore + ?Sized),
        request: CountRequest,
        numbers: &[CountedNumber],
    ) -> Result<GuessCountResult, Error> {
        let CountRequest { tenant, application_bucket, limits, now } = request;
        let mut buckets: Vec<_> = numbers.iter().map(|it| it.bucket).collect();
        if limits.application != QuotaLimit::Off {
            buckets.push(application_bucket);
        }
        self.load(store, tenant, &buckets, now).await?;
        let mut state = self.lock();
        state.check_pending_capacity(tenant, numbers.len())?;
        let mut exhausted = Vec::new();
        for number in numbers {
            let application_count = state.distinct_count(tenant, application_bucket, now, DAY);
            let is_application_exhausted =
                number.spends_application && is_reached(limits.application, application_count);
            if is_application_exhausted
                || !state.is_within_limits(tenant, number.bucket, &limits, now)
            {
                let disclosure = FingerprintDisclosure::Withheld;
                return Ok(GuessCountResult { disclosure, exhausted });
            }
            state.count_number(request, number, &mut exhausted);
        }
        Ok(GuessCountResult { disclosure: FingerprintDisclosure::Allowed, exhausted })
    }

    /// Reads from the store all buckets that are not in memory or not fresh.
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
                loaded.is_none_or(|it| now >= it.loaded_at.plus(BUCKET_AGE_MAX))
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
            let loaded = state.get_or_insert_bucket(tenant, bucket, now);
            loaded.loaded_at = now;
            for (number, counted_at) in pending {
                loaded.last_counted.record(number, counted_at);
            }
        }
        for it in records {
            state
                .get_or_insert_bucket(tenant, it.bucket, now)
                .last_counted
                .record(it.number_digest, it.counted_at);
        }
        Ok(())
    }

    /// Writes the pending counts to the store, and evicts idle buckets. Tenants take turns, so that
    /// the counts of one need not wait for all counts of another.
    ///
    /// Errors: the store failed to write; the counts remain pending.
    pub async fn flush(
        &self,
        store: &(impl GuessStore + ?Sized),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut records_by_tenant: HashMap<TenantId, VecDeque<GuessRecord>> = HashMap::new();
        {
            let mut state = self.lock();
            state.buckets.retain(|_, it| now < it.loaded_at.plus(BUCKET_IDLE_MAX));
            for ((tenant, bucket), numbers) in &state.pending {
                let to_record = |(number, times): (&[u8; 16], &CountTimes)| {
                    let CountTimes { counted_at, expires_at } = *times;
                    GuessRecord { bucket: *bucket, number_digest: *number, counted_at, expires_at }
                };
                records_by_tenant.entry(*tenant).or_default().extend(numbers.iter().map(to_record));
            }
        }
        while !records_by_tenant.is_empty() {
            for (tenant, records) in &mut records_by_tenant {
                let rows: Vec<_> = records.drain(..records.len().min(FLUSH_ROWS_MAX)).collect();
                store.insert_guesses(*tenant, rows.clone()).await?;
                let mut state = self.lock();
                rows.iter().for_each(|it| state.mark_written(*tenant, it));
            }
            records_by_tenant.retain(|_, records| !records.is_empty());
        }
        Ok(())
    }
}

impl LedgerState {
    fn get_or_insert_bucket(
        &mut self,
        tenant: TenantId,
        bucket: GuessBucket,
        now: Timestamp,
    ) -> &mut LoadedBucket {
        let new_bucket = || LoadedBucket { loaded_at: now, last_counted: LastCounted::default() };
        self.buckets.entry((tenant, bucket)).or_insert_with(new_bucket)
    }

    /// The number of distinct numbers of a bucket within the window that ends now.
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

    /// Fails when too many counts are pending, because the store has been unavailable for long. An
    /// error is better than a result that is not counted.
    pub(super) fn check_pending_capacity(
        &self,
        tenant: TenantId,
        new_counts: usize,
    ) -> Result<(), Error> {
        let pending_count = self.pending_counts.get(&tenant).copied().unwrap_or_default();
        if pending_count.saturating_add(new_counts) > TENANT_PENDING_MAX {
            return Err(Error::Unavailable("guess counts cannot be written to the store".into()));
        }
        Ok(())
    }

    /// Whether a group has not reached its limits for a day and a quarter.
    fn is_within_limits(
        &self,
        tenant: TenantId,
        group_bucket: GuessBucket,
        limits: &GuessLimits,
        now: Timestamp,
    ) -> bool {
        !is_reached(limits.day, self.distinct_count(tenant, group_bucket, now, DAY))
            && !is_reached(limits.quarter, self.distinct_count(tenant, group_bucket, now, QUARTER))
    }

    /// Counts a number for its group. The application bucket counts it too, unless the group
    /// counted the same number, or no number at all, within the last day.
    fn count_number(
        &mut self,
        request: CountRequest,
        number: &CountedNumber,
        exhausted: &mut Vec<GuessBudget>,
    ) {
        let CountRequest { tenant, application_bucket, limits, now } = request;
        let CountedNumber { bucket, number_digest, spends_application } = *number;
        let group = &self.get_or_insert_bucket(tenant, bucket, now).last_counted;
        let is_repeat_in_day = group.contains(&number_digest, now, DAY);
        let is_repeat_in_quarter = group.contains(&number_digest, now, QUARTER);
        let is_first_in_day = group.distinct_count(now, DAY) == 0;
        self.add_pending_count((tenant, bucket), number_digest, now, QUARTER);
        let day_count = self.distinct_count(tenant, bucket, now, DAY);
        if !is_repeat_in_day && is_reached(limits.day, day_count) {
            exhausted.push(GuessBudget::Day);
        }
        let quarter_count = self.distinct_count(tenant, bucket, now, QUARTER);
        if !is_repeat_in_quarter && is_reached(limits.quarter, quarter_count) {
            exhausted.push(GuessBudget::Quarter);
        }
        let is_uncounted = !spends_application || limits.application == QuotaLimit::Off;
        if is_uncounted || is_repeat_in_day || is_first_in_day {
            return;
        }
        self.add_pending_count((tenant, application_bucket), number_digest, now, DAY);
        let application_count = self.distinct_count(tenant, application_bucket, now, DAY);
        if is_reached(limits.application, application_count) {
            exhausted.push(GuessBudget::Application);
        }
    }

    /// Counts a number in memory and queues the count for the next [`GuessLedger::flush`].
    pub(super) fn add_pending_count(
        &mut self,
        key: BucketKey,
        number: [u8; 16],
        now: Timestamp,
        window: Duration,
    ) {
        let (tenant, bucket) = key;
        let last_counted = &mut self.get_or_insert_bucket(tenant, bucket, now).last_counted;
        last_counted.record(number, now);
        last_counted.remove_until(now.minus(QUARTER));
        let times = CountTimes { counted_at: now, expires_at: now.plus(window) };
        let numbers = self.pending.entry(key).or_default();
        if numbers.insert(number, times).is_none() {
            let count = self.pending_counts.entry(tenant).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Removes a written count from the pending ones, unless it was counted again in the meantime.
    fn mark_written(&mut self, tenant: TenantId, record: &GuessRecord) {
        let key = (tenant, record.bucket);
        let Some(numbers) = self.pending.get_mut(&key) else { return };
        let times = CountTimes { counted_at: record.counted_at, expires_at: record.expires_at };
        if numbers.get(&record.number_digest) == Some(&times) {
            numbers.remove(&record.number_digest);
            if numbers.is_empty() {
                self.pending.remove(&key);
            }
            let count = self.pending_counts.remove(&tenant).unwrap_or_default();
            if count > 1 {
                self.pending_counts.insert(tenant, count.saturating_sub(1));
            }
        }
    }
}

/// When each distinct number was last counted. Only the last time matters: every window that ends
/// now and contains an earlier time of a number also contains its last time. Windows that ended
/// earlier were decided earlier.
#[derive(Debug, Default, Clone)]
struct LastCounted(HashMap<[u8; 16], i64>);

impl LastCounted {
    fn record(&mut self, number: [u8; 16], at: Timestamp) {
        let last_ms = self.0.entry(number).or_insert(at.unix_ms);
        *last_ms = at.unix_ms.max(*last_ms);
    }

    /// The distinct numbers counted within the window that ends now. A number leaves the window
    /// when its age equals the length of the window.
    fn distinct_count(&self, now: Timestamp, window: Duration) -> u64 {
        let window_start = now.minus(window).unix_ms;
        let count = self.0.values().filter(|at| **at > window_start).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    fn contains(&self, number: &[u8; 16], now: Timestamp, window: Duration) -> bool {
        let window_start = now.minus(window).unix_ms;
        self.0.get(number).is_some_and(|at| *at > window_start)
    }

    /// Removes the numbers last counted at this time or earlier.
    fn remove_until(&mut self, time: Timestamp) {
        self.0.retain(|_, at| *at > time.unix_ms);
    }
}

/// Whether the count has reached the limit.
pub(super) fn is_reached(limit: QuotaLimit, count: u64) -> bool {
    match limit {
        QuotaLimit::Off => false,
        QuotaLimit::Count(max) => count >= max,
    }
}

#[cfg(test)]
mod tests;
