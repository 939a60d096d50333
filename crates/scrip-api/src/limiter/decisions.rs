//! Counts the accepted and rejected requests of each limit, for metrics.

use scrip_core::{
    policy::rate_limit::{CounterCheck, RateLimitName},
    types::metrics::Counter,
};

#[derive(Debug)]
pub(super) struct DecisionCounters {
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
    pub(super) fn count_allowed(&self, checks: &[CounterCheck]) {
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

    pub(super) fn count_rejected(&self, limit: RateLimitName) {
        if let Some((_, rejected)) = self.rows.get(limit.index()) {
            rejected.increment();
        }
    }

    pub(super) fn decisions(&self) -> Vec<RateLimitDecisions> {
        let to_decisions = |(limit, (allowed, rejected)): (&RateLimitName, &(Counter, Counter))| {
            RateLimitDecisions { name: *limit, allowed: allowed.get(), rejected: rejected.get() }
        };
        RateLimitName::ALL.iter().zip(&self.rows).map(to_decisions).collect()
    }
}
