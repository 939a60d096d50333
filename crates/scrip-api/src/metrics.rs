//! What is counted of a server's work: a value of its own `App`, never of the process.
//!
//! Whoever works adds to plain atomics; the server reads them when somebody asks. A label is a word
//! of ours: an operation, a status, a kind. Nothing that a client or a tenant wrote can become one.

pub mod label;

use std::time::Duration;

use scrip_core::{
    audit::Operation,
    metrics::{Counter, Gauge, Histogram, MICROS_BOUNDS},
    time::Timestamp,
};

pub use crate::metrics::label::{Counters, Label};
use crate::{app::memory_pool::MemoryExhausted, labels, metrics::label::Gauges};

/// What a server counts.
#[derive(Debug)]
pub struct Metrics {
    pub started_at: Timestamp,
    /// By [`Operation::index`].
    pub operations: Vec<OperationMetrics>,
    /// Requests whose head has arrived and whose answer has not been made.
    pub in_flight: Gauge,
    pub panics: Counter,
    pub bodies_rejected: Counters<MemoryRejection>,
    pub responses_rejected: Counters<MemoryRejection>,
    pub readiness_checks: Counter,
    pub unrouted: Counters<UnroutedReason>,
    pub authentication_failures: Counters<AuthenticationFailure>,
    pub idempotency: Counters<IdempotencyOutcome>,
    pub reloads: Counters<ReloadOutcome>,
    pub swept: Counters<SweepTarget>,
    pub sweep_failures: Counters<SweepTarget>,
    /// Milliseconds of the vault's clock.
    pub sweep_finished: Gauges<SweepTarget>,
}

labels! {
    /// Why a request came to no route.
    pub enum UnroutedReason {
        NoRoute "no_route",
        MethodNotAllowed "method_not_allowed",
        Sealed "sealed",
    }

    /// Why a body or an answer found no memory.
    pub enum MemoryRejection {
        Pool "pool",
        NetworkShare "network_share",
    }

    /// Why a request at a route has no caller.
    pub enum AuthenticationFailure {
        Missing "missing",
        Malformed "malformed",
        Unknown "unknown",
        /// The key is known, and its tenant's policy is not believed.
        PolicyAltered "refused",
    }

    /// What came of an idempotency key.
    pub enum IdempotencyOutcome {
        First "first",
        Replay "replay",
        /// The first request is still in flight.
        Conflict "conflict",
    }

    pub enum ReloadOutcome {
        Succeeded "done",
        Failed "failed",
    }

    /// What leaves by itself.
    pub enum SweepTarget {
        Tokens "tokens",
        TokenIntents "token_intents",
        VerificationCodes "verification_codes",
        StoredResponses "answers",
        AccessSessions "access_sessions",
        ThreeDsSessions "sessions",
        ThreeDsEvents "session_events",
        DeletedTenants "deleted_tenants",
        AuditRecords "records",
        UsageCounters "usage",
        GuessBudgets "guesses",
    }
}

impl MemoryRejection {
    pub fn from_exhausted(exhausted: MemoryExhausted) -> Self {
        match exhausted {
            MemoryExhausted::Pool => Self::Pool,
            MemoryExhausted::NetworkShare => Self::NetworkShare,
        }
    }
}

/// The statuses that an answer can have, and one for whatever comes to be forgotten here.
pub const STATUSES: [(u16, &str); 19] = [
    (200, "200"),
    (201, "201"),
    (204, "204"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (411, "411"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (424, "424"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
    (0, "other"),
];

/// One operation's answers.
#[derive(Debug)]
pub struct OperationMetrics {
    pub statuses: [Counter; STATUSES.len()],
    pub micros: Histogram<16>,
}

impl Metrics {
    #[must_use]
    pub fn new(started_at: Timestamp) -> Self {
        let response = |_: &Operation| OperationMetrics {
            statuses: std::array::from_fn(|_| Counter::default()),
            micros: Histogram::new(MICROS_BOUNDS),
        };
        Self {
            started_at,
            operations: Operation::ALL.iter().map(response).collect(),
            in_flight: Gauge::default(),
            panics: Counter::default(),
            bodies_rejected: Counters::default(),
            responses_rejected: Counters::default(),
            readiness_checks: Counter::default(),
            unrouted: Counters::default(),
            authentication_failures: Counters::default(),
            idempotency: Counters::default(),
            reloads: Counters::default(),
            swept: Counters::default(),
            sweep_failures: Counters::default(),
            sweep_finished: Gauges::default(),
        }
    }

    /// A request at a route has its answer. Three additions, and nothing is allocated or locked.
    pub fn record_response(&self, operation: Operation, status: u16, duration: Duration) {
        let Some(row) = self.operations.get(operation.index()) else { return };
        let known = STATUSES.iter().position(|(known, _)| *known == status);
        let at = known.unwrap_or(STATUSES.len().saturating_sub(1));
        if let Some(counter) = row.statuses.get(at) {
            counter.increment();
        }
        row.micros.record(duration.as_micros().try_into().unwrap_or(u64::MAX));
    }
}
