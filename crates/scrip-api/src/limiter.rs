//! Rate limits, counted in this process or shared with other servers through Redis.
//!
//! The table of limits and the counters are in `scrip-core`. This module selects the counters,
//! caches rejections and counts the decisions.

pub mod decisions;
pub mod rejection_cache;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    Timestamp,
    policy::rate_limit::{
        ClientNetwork, CounterCheck, EffectiveRates, RateLimitName, RateLimitRequest,
        address_check, counter_checks,
        counters::{CounterUsage, RateLimitCounters, RateLimitRejection},
    },
    types::time::Clock,
};
use scrip_seal::Pepper;

use crate::limiter::{
    decisions::{DecisionCounters, RateLimitDecisions},
    rejection_cache::RejectionCache,
};

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
