//! What is counted of a server's work: a value of its own `App`, never of the process.
//!
//! Whoever works adds to plain atomics; `shown.rs` reads them when somebody asks. A label is a word
//! of ours: an operation, a status, a kind. Nothing that a client or a tenant wrote can become one.

pub mod access;
mod label;
pub mod listener;
mod own_process;
mod page;
mod shown;
mod table;

use std::time::Duration;

use scrip_core::{
    audit::Operation,
    measure::{Counter, Histogram, Level, MICROS_BOUNDS},
    time::Timestamp,
};

pub(crate) use crate::metrics::{
    label::{Counters, Label, labels},
    shown::render,
};
use crate::{connection::Cut, memory_pool::Exhausted, metrics::label::Levels};

/// What a server counts.
#[derive(Debug)]
pub struct Metrics {
    started_at: Timestamp,
    /// By [`Operation::index`].
    operations: Vec<Answered>,
    /// Requests whose head has arrived and whose answer has not been made.
    pub in_flight: Level,
    pub(crate) accepted: Counter,
    pub(crate) panics: Counter,
    pub(crate) connections_refused: Counters<ConnectionRefused>,
    pub(crate) connections_evicted: Counters<ConnectionEvicted>,
    pub(crate) connections_cut: Counters<Cut>,
    pub(crate) bodies_refused: Counters<MemoryRefused>,
    pub(crate) answers_refused: Counters<MemoryRefused>,
    pub(crate) readiness_checks: Counter,
    pub(crate) refused: Counters<Refusal>,
    pub(crate) unauthenticated: Counters<Unauthenticated>,
    pub(crate) idempotency: Counters<Turn>,
    pub(crate) reloads: Counters<Reload>,
    pub(crate) swept: Counters<Swept>,
    pub(crate) sweep_failures: Counters<Swept>,
    /// Milliseconds of the vault's clock.
    pub(crate) sweep_finished: Levels<Swept>,
}

labels! {
    /// Why a request came to no route.
    pub(crate) enum Refusal {
        NoRoute "no_route",
        MethodNotAllowed "method_not_allowed",
        Sealed "sealed",
    }

    /// Why a connection was not accepted.
    pub(crate) enum ConnectionRefused {
        NetworkFull "network_full",
    }

    /// Why an idle connection lost its slot to a new one.
    pub(crate) enum ConnectionEvicted {
        Full "full",
        NetworkFull "network_full",
        /// The process may open no more files.
        Descriptors "descriptors",
    }

    /// Why a body or an answer found no memory.
    pub(crate) enum MemoryRefused {
        Pool "pool",
        NetworkShare "network_share",
    }

    /// Why a request at a route has no caller.
    pub(crate) enum Unauthenticated {
        Missing "missing",
        Malformed "malformed",
        Unknown "unknown",
        /// The key is known, and its tenant's policy is not believed.
        Refused "refused",
    }

    /// What came of an idempotency key.
    pub(crate) enum Turn {
        First "first",
        Replay "replay",
        /// The first request is still in flight.
        Conflict "conflict",
    }

    pub(crate) enum Reload {
        Done "done",
        Failed "failed",
    }

    /// What leaves by itself.
    pub(crate) enum Swept {
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
    pub(crate) fn of(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Pool => Self::Pool,
            Exhausted::NetworkShare => Self::NetworkShare,
        }
    }
}

/// The statuses that an answer can have, and one for whatever comes to be forgotten here.
const STATUSES: [(u16, &str); 19] = [
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
struct Answered {
    statuses: [Counter; STATUSES.len()],
    micros: Histogram<16>,
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
            accepted: Counter::default(),
            panics: Counter::default(),
            connections_refused: Counters::default(),
            connections_evicted: Counters::default(),
            connections_cut: Counters::default(),
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
