//! How often each row let a request in or refused one. Plain counts, to be sampled.

use scrip_core::{
    metrics::Counter,
    policy::rate_limit::{CounterCheck, RateLimitName},
};

#[derive(Debug)]
pub(super) struct DecisionCounters {
    /// By row: let in, and refused.
    rows: Vec<(Counter, Counter)>,
}

/// Of one row, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitDecisions {
    pub name: RateLimitName,
    /// Requests that were counted on it.
    pub allowed: u64,
    /// Requests that it refused; of several, the one that did so longest.
    pub rejected: u64,
}

impl Default for DecisionCounters {
    fn default() -> Self {
        Self { rows: RateLimitName::ALL.iter().map(|_| Default::default()).collect() }
    }
}

impl DecisionCounters {
    pub(super) fn count_allowed(&self, checks: &[CounterCheck]) {
        let mut before = None;
        for demand in checks {
            // A row with two counters has counted one request.
            if before.replace(demand.limit) != Some(demand.limit)
                && let Some((allowed, _)) = self.rows.get(demand.limit.index())
            {
                allowed.increment();
            }
        }
    }

    pub(super) fn count_rejected(&self, row: RateLimitName) {
        if let Some((_, refused)) = self.rows.get(row.index()) {
            refused.increment();
        }
    }

    pub(super) fn decisions(&self) -> Vec<RateLimitDecisions> {
        let of = |(row, (allowed, refused)): (&RateLimitName, &(Counter, Counter))| {
            RateLimitDecisions { name: *row, allowed: allowed.get(), rejected: refused.get() }
        };
        RateLimitName::ALL.iter().zip(&self.rows).map(of).collect()
    }
}
