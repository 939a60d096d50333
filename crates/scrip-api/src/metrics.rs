//! What is counted of a server's work: a value of its own `App`, never of the process.
//!
//! Whoever works adds to plain atomics; the server reads them when somebody asks. A label is a word
//! of ours: an operation, a status, a kind. Nothing that a client or a tenant wrote can become one.

pub mod label;

use std::time::Duration;

use scrip_core::{
    audit::Operation,
    measure::{Counter, Histogram, Level, MICROS_BOUNDS},
    time::Timestamp,
};

pub use crate::metrics::label::{Counters, Label};
use crate::{app::memory_pool::Exhausted, labels, metrics::label::Levels};

/// What a server counts.
#[derive(Debug)]
pub struct Metrics {
    pub started_at: Timestamp,
    /// By [`Operation::index`].
    pub operations: Vec<Answered>,
    /// Requests whose head has arrived and whose answer has not been made.
    pub in_flight: Level,
    pub panics: Counter,
    pub bodies_refused: Counters<MemoryRefused>,
    pub answers_refused: Counters<MemoryRefused>,
    pub readiness_checks: Counter,
    pub refused: Counters<Refusal>,
    pub unauthenticated: Counters<Unauthenticated>,
    pub idempotency: Counters<Turn>,
    pub reloads: Counters<Reload>,
    pub swept: Counters<Swept>,
    pub sweep_failures: Counters<Swept>,
    /// Milliseconds of the vault's clock.
    pub sweep_finished: Levels<Swept>,
}

labels! {
    /// Why a request came to no route.
    pub enum Refusal {
        NoRoute "no_route",
        MethodNotAllowed "method_not_allowed",
        Sealed "sealed",
    }

    /// Why a body or an answer found no memory.
    pub enum MemoryRefused {
        Pool "pool",
        NetworkShare "network_share",
    }

    /// Why a request at a route has no caller.
    pub enum Unauthenticated {
        Missing "missing",
        Malformed "malformed",
        Unknown "unknown",
        /// The key is known, and its tenant's policy is not believed.
        Refused "refused",
    }

    /// What came of an idempotency key.
    pub enum Turn {
        First "first",
        Replay "replay",
        /// The first request is still in flight.
        Conflict "conflict",
    }

    pub enum Reload {
        Done "done",
        Failed "failed",
    }

    /// What leaves by itself.
    pub enum Swept {
        Tokens "tokens",
        TokenIntents "token_intents",
        VerificationCodes "verification_codes",
        Answers "answers",
        AccessSessions "access_sessions",
        Sessions "sessions",
        SessionEvents "session_events",
        DeletedTenants "deleted_tenants",
        Records "records",
        Usage "usage",
        Guesses "guesses",
    }
}

impl MemoryRefused {
    pub fn of(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Pool => Self::Pool,
            Exhausted::NetworkShare => Self::NetworkShare,
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
pub struct Answered {
    pub statuses: [Counter; STATUSES.len()],
    pub micros: Histogram<16>,
}

impl Metrics {
    #[must_use]
    pub fn new(started_at: Timestamp) -> Self {
        let answered = |_: &Operation| Answered {
            statuses: std::array::from_fn(|_| Counter::default()),
            micros: Histogram::new(MICROS_BOUNDS),
        };
        Self {
            started_at,
            operations: Operation::ALL.iter().map(answered).collect(),
            in_flight: Level::default(),
            panics: Counter::default(),
            bodies_refused: Counters::default(),
            answers_refused: Counters::default(),
            readiness_checks: Counter::default(),
            refused: Counters::default(),
            unauthenticated: Counters::default(),
            idempotency: Counters::default(),
            reloads: Counters::default(),
            swept: Counters::default(),
            sweep_failures: Counters::default(),
            sweep_finished: Levels::default(),
        }
    }

    /// A request at a route has its answer. Three additions, and nothing is allocated or locked.
    pub fn answered(&self, operation: Operation, status: u16, took: Duration) {
        let Some(row) = self.operations.get(operation.index()) else { return };
        let known = STATUSES.iter().position(|(known, _)| *known == status);
        let at = known.unwrap_or(STATUSES.len().saturating_sub(1));
        if let Some(counter) = row.statuses.get(at) {
            counter.one();
        }
        row.micros.note(took.as_micros().try_into().unwrap_or(u64::MAX));
    }
}
