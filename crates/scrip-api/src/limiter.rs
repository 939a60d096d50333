//! Whether a request may come now: counted here, or with other servers through Redis.
//!
//! The table and the counters themselves are in the core; this decides which counters are asked,
//! and remembers what was decided.

pub mod decisions;
pub mod rejection_cache;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    policy::rate_limit::{
        ClientNetwork, CounterCheck, EffectiveRates, RateLimitName, RateLimitRequest,
        address_check, counter_checks,
        counters::{CounterUsage, RateLimitCounters, RateLimitRejection},
    },
    time::{Clock, Timestamp},
};
use scrip_seal::Pepper;

use crate::limiter::{
    decisions::{DecisionCounters, RateLimitDecisions},
    rejection_cache::RejectionCache,
};

/// How long a refusal is known that may end early.
const REJECTION_CACHE_TIME: Duration = Duration::from_secs(1);

/// Counters of one process, when nobody says otherwise.
pub const COUNTERS_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Limiter {
    /// Nothing when limits are off.
    rates: Option<EffectiveRates>,
    local: RateLimitCounters,
    shared: Option<(Arc<dyn SharedCounters>, OutagePolicy)>,
    /// What the shared counters said of addresses, so that the same need not be asked again.
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

    /// How often they did not answer.
    fn failure_count(&self) -> u64;

    /// Whether they answer now.
    fn is_available(&self) -> bool;
}

/// Fails when the counters did not answer in time; whether they counted is not known then.
pub type CountFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CountResult, CountersUnavailable>> + Send + 'a>>;

/// What was decided, and when by the clock of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountResult {
    pub at_us: u64,
    pub outcome: Result<(), RateLimitRejection>,
}

/// No answer, or none in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountersUnavailable;

/// What to do when the shared counters do not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutagePolicy {
    /// Each server counts for itself.
    CountLocally,
    /// Nobody is let in.
    RejectAll,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitError {
    Rejected(RateLimitRejection),
    /// The shared counters do not answer, and nobody is let in without them.
    Unavailable,
}

impl Default for Limiter {
    /// By the table, for this process alone.
    fn default() -> Self {
        Self::new(EffectiveRates::default(), COUNTERS_MAX)
    }
}

impl Limiter {
    #[must_use]
    pub fn new(rates: EffectiveRates, counters_max: usize) -> Self {
        Self {
            rates: Some(rates),
            local: RateLimitCounters::new(counters_max),
            shared: None,
            rejections: RejectionCache::default(),
            decisions: DecisionCounters::default(),
        }
    }

    /// Lets everybody in.
    #[must_use]
    pub fn disabled() -> Self {
        Self { rates: None, ..Self::new(EffectiveRates::default(), 0) }
    }

    /// Counts with others.
    #[must_use]
    pub fn with_shared_counters(
        self,
        shared: Arc<dyn SharedCounters>,
        outage_policy: OutagePolicy,
    ) -> Self {
        Self { shared: Some((shared, outage_policy)), ..self }
    }

    /// Before anything is looked up: whether this address may ask at all. Counts nothing, and asks
    /// nobody else.
    ///
    /// # Errors
    /// It has asked for too much, or is blocked.
    pub fn check_address(
        &self,
        now: Timestamp,
        address: ClientNetwork,
    ) -> Result<(), RateLimitRejection> {
        let check = self.rates.as_ref().and_then(|it| address_check(it, address));
        let Some(check) = check else { return Ok(()) };
        let request = self
            .rejections
            .find_rejection(now, &check)
            .and_then(|()| self.local.probe(now, &check));
        request.inspect_err(|it| self.decisions.count_rejected(it.limit))
    }

    /// Counts a request on everything that applies to it, or on nothing.
    ///
    /// # Errors
    /// It is one too many somewhere; or nobody can tell.
    pub async fn count_request(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        request: &RateLimitRequest,
    ) -> Result<(), RateLimitError> {
        let Some(figures) = &self.rates else { return Ok(()) };
        let checks = counter_checks(figures, request);
        if checks.is_empty() {
            return Ok(());
        }
        let counted = self.count_all(clock, pepper, &checks).await;
        match &counted {
            Ok(()) => self.decisions.count_allowed(&checks),
            Err(RateLimitError::Rejected(refused)) => self.decisions.count_rejected(refused.limit),
            Err(RateLimitError::Unavailable) => (),
        }
        counted
    }

    async fn count_all(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        checks: &[CounterCheck],
    ) -> Result<(), RateLimitError> {
        let Some((shared, when_away)) = &self.shared else {
            return self.local.count(clock.now(), checks).map_err(RateLimitError::Rejected);
        };
        let now = clock.now();
        for check in checks {
            self.rejections.find_rejection(now, check).map_err(RateLimitError::Rejected)?;
        }
        match (Arc::clone(shared).count(pepper, checks).await, when_away) {
            (Ok(counted), _) => counted.outcome.map_err(|refused| {
                self.cache_rejection(clock.now(), checks, refused);
                RateLimitError::Rejected(refused)
            }),
            (Err(_), OutagePolicy::RejectAll) => Err(RateLimitError::Unavailable),
            (Err(_), OutagePolicy::CountLocally) => {
                self.local.count(clock.now(), checks).map_err(RateLimitError::Rejected)
            }
        }
    }

    /// The rate of an address is the same for everybody, so that its refusal cannot end early. A
    /// tenant's share can change, and counts within a second.
    fn cache_rejection(
        &self,
        now: Timestamp,
        checks: &[CounterCheck],
        rejection: RateLimitRejection,
    ) {
        let mut of_row = checks.iter().filter(|it| it.limit == rejection.limit);
        // Of a row with two counters nobody said which it was.
        let (Some(check), None) = (of_row.next(), of_row.next()) else { return };
        let is_address = check.limit == RateLimitName::Address;
        let wait = if is_address {
            rejection.retry_after
        } else {
            rejection.retry_after.min(REJECTION_CACHE_TIME)
        };
        self.rejections.insert(now, check, wait);
    }

    /// Gives back what is over, when there is little room left.
    pub fn sweep(&self, now: Timestamp) {
        self.local.sweep(now);
    }

    /// What was decided since the start, by row.
    #[must_use]
    pub fn decisions(&self) -> Vec<RateLimitDecisions> {
        self.decisions.decisions()
    }

    /// How full the counters of this process are.
    #[must_use]
    pub fn counter_usage(&self) -> CounterUsage {
        self.local.usage()
    }

    /// How often the shared counters did not answer; nothing when there are none.
    #[must_use]
    pub fn shared_counter_failures(&self) -> Option<u64> {
        self.shared.as_ref().map(|(shared, _)| shared.failure_count())
    }

    /// Whether they answer now; nothing when there are none.
    #[must_use]
    pub fn shared_counters_available(&self) -> Option<bool> {
        self.shared.as_ref().map(|(shared, _)| shared.is_available())
    }
}
