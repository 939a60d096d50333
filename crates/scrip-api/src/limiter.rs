//! Rate limits, counted in this process or shared with other servers through Redis.
//!
//! The table of limits and the counters are in `scrip-core`. This module selects the counters,
//! caches rejections and counts the decisions.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use scrip_core::{
    Timestamp,
    policy::rate_limit::{
        ClientNetwork, CounterCheck, CounterKey, EffectiveRates, RateLimitName, RateLimitRequest,
        address_check, counter_checks,
        counters::{CounterUsage, RateLimitCounters, RateLimitRejection},
    },
    types::{metrics::Counter, time::Clock},
};
use scrip_seal::Pepper;

/// How long a rejection is cached if the limit can change before it ends.
const REJECTION_CACHE_TIME: Duration = Duration::from_secs(1);

/// The default number of counters in this process.
pub const COUNTERS_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Limiter {
    /// `None` if rate limits are off.
    rates: Option<EffectiveRates>,
    local: RateLimitCounters,
    shared: Option<(Arc<dyn SharedCounters>, OutagePolicy)>,
    /// Rejections by the shared counters, cached to avoid repeated calls.
    rejections: RejectionCache,
    decisions: DecisionCounters,
}

/// Counters that several servers share.
pub trait SharedCounters: fmt::Debug + Send + Sync {
    /// Counts on all of these counters or on none.
    fn count<'a>(
        self: Arc<Self>,
        pepper: &'a Pepper,
        checks: &'a [CounterCheck],
    ) -> CountFuture<'a>;

    /// The number of failed calls.
    fn failure_count(&self) -> u64;

    /// Whether the counters are available now.
    fn is_available(&self) -> bool;
}

/// Fails if the counters did not respond in time. Whether they counted is then unknown.
pub type CountFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CountResult, CountersUnavailable>> + Send + 'a>>;

/// The decision, and its time by the clock of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountResult {
    pub at_us: u64,
    pub outcome: Result<(), RateLimitRejection>,
}

/// The counters did not respond, or not in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountersUnavailable;

/// Behavior while the shared counters are unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutagePolicy {
    /// Each server uses its own counters.
    CountLocally,
    /// All requests are rejected.
    RejectAll,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitError {
    Rejected(RateLimitRejection),
    /// The shared counters are unavailable, and [`OutagePolicy::RejectAll`] is set.
    Unavailable,
}

impl Default for Limiter {
    /// The default rates, counted in this process.
    fn default() -> Self {
        Self::new(EffectiveRates::default(), COUNTERS_MAX)
    }
}

impl Limiter {
    pub fn new(rates: EffectiveRates, counters_max: usize) -> Self {
        Self {
            rates: Some(rates),
            local: RateLimitCounters::new(counters_max),
            shared: None,
            rejections: RejectionCache::default(),
            decisions: DecisionCounters::default(),
        }
    }

    /// Creates a limiter that accepts every request.
    pub fn disabled() -> Self {
        Self { rates: None, ..Self::new(EffectiveRates::default(), 0) }
    }

    /// Uses shared counters.
    #[must_use]
    pub fn with_shared_counters(
        self,
        shared: Arc<dyn SharedCounters>,
        outage_policy: OutagePolicy,
    ) -> Self {
        Self { shared: Some((shared, outage_policy)), ..self }
    }

    /// Checks the limit of an address before anything is looked up. Counts nothing, and makes no
    /// remote call.
    /// Errors: the address has exceeded its limit.
    pub fn check_address(
        &self,
        now: Timestamp,
        address: ClientNetwork,
    ) -> Result<(), RateLimitRejection> {
        let check = self.rates.as_ref().and_then(|it| address_check(it, address));
        let Some(check) = check else { return Ok(()) };
        let decision = self
            .rejections
            .find_rejection(now, &check)
            .and_then(|()| self.local.probe(now, &check));
        decision.inspect_err(|it| self.decisions.count_rejected(it.limit))
    }

    /// Counts a request on all counters that apply to it, or on none.
    /// Errors: a limit is exceeded, or the shared counters are unavailable.
    pub async fn count_request(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        request: &RateLimitRequest,
    ) -> Result<(), RateLimitError> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let checks = counter_checks(rates, request);
        if checks.is_empty() {
            return Ok(());
        }
        let decision = self.count_all(clock, pepper, &checks).await;
        match &decision {
            Ok(()) => self.decisions.count_allowed(&checks),
            Err(RateLimitError::Rejected(it)) => self.decisions.count_rejected(it.limit),
            Err(RateLimitError::Unavailable) => (),
        }
        decision
    }

    async fn count_all(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        checks: &[CounterCheck],
    ) -> Result<(), RateLimitError> {
        let Some((shared, outage_policy)) = &self.shared else {
            return self.local.count(clock.now(), checks).map_err(RateLimitError::Rejected);
        };
        let now = clock.now();
        for check in checks {
            self.rejections.find_rejection(now, check).map_err(RateLimitError::Rejected)?;
        }
        match (Arc::clone(shared).count(pepper, checks).await, outage_policy) {
            (Ok(result), _) => result.outcome.map_err(|rejection| {
                self.cache_rejection(clock.now(), checks, rejection);
                RateLimitError::Rejected(rejection)
            }),
            (Err(_), OutagePolicy::RejectAll) => Err(RateLimitError::Unavailable),
            (Err(_), OutagePolicy::CountLocally) => {
                self.local.count(clock.now(), checks).map_err(RateLimitError::Rejected)
            }
        }
    }

    /// Caches a rejection until it ends, but at most for a second unless it is by address. The rate
    /// of an address is the same for all tenants, so its rejection cannot end early. A tenant's
    /// share can change, and a change takes effect within a second.
    fn cache_rejection(
        &self,
        now: Timestamp,
        checks: &[CounterCheck],
        rejection: RateLimitRejection,
    ) {
        let mut matching = checks.iter().filter(|it| it.limit == rejection.limit);
        // If a limit has two counters, the rejection does not say which one was full.
        let (Some(check), None) = (matching.next(), matching.next()) else { return };
        let is_address = check.limit == RateLimitName::Address;
        let wait = if is_address {
            rejection.retry_after
        } else {
            rejection.retry_after.min(REJECTION_CACHE_TIME)
        };
        self.rejections.insert(now, check, wait);
    }

    /// Frees expired counters when the capacity is nearly used up.
    pub fn sweep(&self, now: Timestamp) {
        self.local.sweep(now);
    }

    /// Returns the decisions since the start, by limit.
    pub fn decisions(&self) -> Vec<RateLimitDecisions> {
        self.decisions.decisions()
    }

    /// Returns how many counters of this process are in use.
    pub fn counter_usage(&self) -> CounterUsage {
        self.local.usage()
    }

    /// Returns the number of failed calls to the shared counters; `None` if there are none.
    pub fn shared_counter_failures(&self) -> Option<u64> {
        self.shared.as_ref().map(|(shared, _)| shared.failure_count())
    }

    /// Returns whether the shared counters are available; `None` if there are none.
    pub fn shared_counters_available(&self) -> Option<bool> {
        self.shared.as_ref().map(|(shared, _)| shared.is_available())
    }
}

/// Counts the accepted and rejected requests of each limit, for metrics.
#[derive(Debug)]
struct DecisionCounters {
    /// By limit: accepted and rejected requests.
    rows: Vec<(Counter, Counter)>,
}

/// The decisions of one limit since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitDecisions {
    pub name: RateLimitName,
    /// Requests that were counted on this limit.
    pub allowed: u64,
    /// Requests that this limit rejected. If several limits reject a request, only the one with the
    /// longest wait counts it.
    pub rejected: u64,
}

impl Default for DecisionCounters {
    fn default() -> Self {
        Self { rows: RateLimitName::ALL.iter().map(|_| Default::default()).collect() }
    }
}

impl DecisionCounters {
    fn count_allowed(&self, checks: &[CounterCheck]) {
        let mut previous_limit = None;
        for check in checks {
            // A limit with two counters counts a request once.
            if previous_limit.replace(check.limit) != Some(check.limit)
                && let Some((allowed, _)) = self.rows.get(check.limit.index())
            {
                allowed.increment();
            }
        }
    }

    fn count_rejected(&self, limit: RateLimitName) {
        if let Some((_, rejected)) = self.rows.get(limit.index()) {
            rejected.increment();
        }
    }

    fn decisions(&self) -> Vec<RateLimitDecisions> {
        let to_decisions = |(limit, (allowed, rejected)): (&RateLimitName, &(Counter, Counter))| {
            RateLimitDecisions { name: *limit, allowed: allowed.get(), rejected: rejected.get() }
        };
        RateLimitName::ALL.iter().zip(&self.rows).map(to_decisions).collect()
    }
}

/// Caches rejections by the shared counters until they end, so that the counters need not be called
/// again.
#[derive(Debug)]
struct RejectionCache {
    until_ms: Mutex<HashMap<(RateLimitName, CounterKey), i64>>,
    /// When the last rejection ends. Mostly there is none, and no request takes the lock.
    latest_until_ms: AtomicI64,
}

/// Maximum size of the cache. Further rejections are not cached. The cache only saves calls;
/// results do not depend on it.
const REJECTIONS_MAX: usize = 4096;

impl Default for RejectionCache {
    fn default() -> Self {
        Self { until_ms: Mutex::default(), latest_until_ms: AtomicI64::new(i64::MIN) }
    }
}

impl RejectionCache {
    fn find_rejection(
        &self,
        now: Timestamp,
        check: &CounterCheck,
    ) -> Result<(), RateLimitRejection> {
        if self.latest_until_ms.load(Ordering::Relaxed) < now.unix_ms {
            return Ok(());
        }
        let entries = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let until_ms =
            entries.get(&(check.limit, check.key)).copied().filter(|it| now.unix_ms <= *it);
        drop(entries);
        let Some(until_ms) = until_ms else { return Ok(()) };
        let wait_ms = until_ms.saturating_sub(now.unix_ms).saturating_add(1);
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default());
        Err(RateLimitRejection { limit: check.limit, rate: check.rate, retry_after: wait })
    }

    /// Caches a rejection for the wait. The wait may have started slightly before now, so the entry
    /// ends a millisecond early, and the counters decide.
    fn insert(&self, now: Timestamp, check: &CounterCheck, wait: Duration) {
        let until_ms = now.plus(wait).unix_ms.saturating_sub(1);
        let mut entries = self.until_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= REJECTIONS_MAX {
            entries.retain(|_, until_ms| now.unix_ms <= *until_ms);
        }
        if entries.len() < REJECTIONS_MAX {
            entries.insert((check.limit, check.key), until_ms);
            self.latest_until_ms.fetch_max(until_ms, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::policy::rate_limit::{ClientNetwork, EffectiveRates, address_check};

    use super::*;

    fn check_for_address(number: u32) -> CounterCheck {
        let network = ClientNetwork::from_address(std::net::Ipv4Addr::from(number).into());
        address_check(&EffectiveRates::default(), network).unwrap()
    }

    #[test]
    fn rejection_expires_after_its_wait_and_cache_size_is_bounded() {
        let cache = RejectionCache::default();
        let timestamp = |unix_ms| Timestamp { unix_ms };
        cache.insert(timestamp(1000), &check_for_address(0), Duration::from_millis(500));
        assert_eq!(
            cache
                .find_rejection(timestamp(1499), &check_for_address(0))
                .unwrap_err()
                .retry_after
                .as_millis(),
            1
        );
        assert_eq!(cache.find_rejection(timestamp(1500), &check_for_address(0)), Ok(()));
        assert_eq!(cache.find_rejection(timestamp(1400), &check_for_address(1)), Ok(()));
        for number in 0..10_000 {
            cache.insert(timestamp(2000), &check_for_address(number), Duration::from_secs(30));
        }
        assert_eq!(cache.until_ms.lock().unwrap().len(), REJECTIONS_MAX);
        assert!(cache.find_rejection(timestamp(3000), &check_for_address(17)).is_err());
    }
}
