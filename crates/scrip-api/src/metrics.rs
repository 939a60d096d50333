//! Metrics of a server. They belong to an `App`, not to the process.
//!
//! Requests and tasks add to plain atomics; the server reads them when metrics are collected.
//! Labels come from fixed sets: operations, statuses, kinds. Text of a client or a tenant can never
//! become a label.

pub mod label;

use std::time::Duration;

use scrip_core::{
    Timestamp,
    types::{
        Operation,
        metrics::{Counter, Gauge, Histogram, MICROS_BOUNDS},
    },
};

pub use crate::metrics::label::{Counters, Label};
use crate::{labels, metrics::label::Gauges};

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    pub started_at: Timestamp,
    /// Indexed by [`Operation::index`].
    pub operations: Vec<OperationMetrics>,
    /// Requests with a complete head and no response yet.
    pub in_flight: Gauge,
    pub panics: Counter,
    pub bodies_rejected: Counters<MemoryRejection>,
    pub responses_rejected: Counters<MemoryRejection>,
    pub readiness_checks: Counter,
    pub unrouted: Counters<UnroutedReason>,
    pub authentication_failures: Counters<AuthenticationFailure>,
    pub idempotency: Counters<IdempotencyOutcome>,
    pub reloads: Counters<ReloadOutcome>,
    pub proxy_calls: Counters<CallResult>,
    pub proxy_failures: Counters<CallFailureReason>,
    /// From the start of a call to the head of the answer.
    pub proxy_answer_micros: Histogram<16>,
    pub webhooks: WebhookMetrics,
    pub key_rotation: KeyRotationMetrics,
    pub swept: Counters<SweepTarget>,
    pub sweep_failures: Counters<SweepTarget>,
    /// Time of the last run by the vault's clock, in milliseconds.
    pub sweep_finished: Gauges<SweepTarget>,
}

labels! {
    /// Why a request matched no route.
    pub enum UnroutedReason {
        NoRoute "no_route",
        MethodNotAllowed "method_not_allowed",
        /// The vault is sealed.
        Sealed "sealed",
        /// The storage fails, so that the policy in memory may be outdated.
        StoreUnreachable "store_unreachable",
    }

    /// Why the memory for a body or a response could not be reserved.
    pub enum MemoryRejection {
        Pool "pool",
        NetworkShare "network_share",
    }

    /// Why a request to a keyed route has no caller.
    pub enum AuthenticationFailure {
        Missing "missing",
        Malformed "malformed",
        Unknown "unknown",
        /// The key is valid, but its tenant's policy was altered outside of the vault.
        PolicyAltered "policy_altered",
    }

    /// The result of the lookup of an idempotency key.
    pub enum IdempotencyOutcome {
        First "first",
        Replay "replay",
        /// The first request is still in flight.
        Conflict "conflict",
    }

    /// How far a proxied call got.
    pub enum CallResult {
        Answered "answered",
        MaybeSent "maybe_sent",
        NotSent "not_sent",
        /// The stored answer of an earlier call.
        Replayed "replayed",
    }

    /// Why a proxied call was not answered, or its answer not passed on.
    pub enum CallFailureReason {
        Guard "guard",
        Lookup "lookup",
        Connect "connect",
        Tls "tls",
        Timeout "timeout",
        Closed "closed",
        Malformed "malformed",
        Overloaded "overloaded",
        TooLarge "too_large",
        Transform "transform",
        /// The call could not be recorded.
        Record "record",
    }

    pub enum ReloadOutcome {
        Succeeded "succeeded",
        Failed "failed",
    }

    /// The data that background tasks delete after its retention.
    pub enum SweepTarget {
        Tokens "tokens",
        TokenIntents "token_intents",
        VerificationCodes "verification_codes",
        StoredResponses "stored_responses",
        AccessSessions "access_sessions",
        ThreeDsSessions "threeds_sessions",
        ClientKeys "client_keys",
        WebhookDeliveries "webhook_deliveries",
        DeletedTenants "deleted_tenants",
        AuditRecords "audit_records",
        UsageCounters "usage_counters",
        GuessBudgets "guess_budgets",
    }
}

/// All statuses of responses; any other status is counted as `other`.
pub const STATUSES: [(u16, &str); 21] = [
    (200, "200"),
    (201, "201"),
    (204, "204"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
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
    (502, "502"),
    (503, "503"),
    (0, "other"),
];

/// The responses of one operation.
#[derive(Debug)]
pub struct OperationMetrics {
    pub statuses: [Counter; STATUSES.len()],
    pub micros: Histogram<16>,
}

impl Metrics {
    pub fn new(started_at: Timestamp) -> Self {
        let new_metrics = |_: &Operation| OperationMetrics {
            statuses: std::array::from_fn(|_| Counter::default()),
            micros: Histogram::new(MICROS_BOUNDS),
        };
        Self {
            started_at,
            operations: Operation::ALL.iter().map(new_metrics).collect(),
            in_flight: Gauge::default(),
            panics: Counter::default(),
            bodies_rejected: Counters::default(),
            responses_rejected: Counters::default(),
            readiness_checks: Counter::default(),
            unrouted: Counters::default(),
            authentication_failures: Counters::default(),
            idempotency: Counters::default(),
            reloads: Counters::default(),
            proxy_calls: Counters::default(),
            proxy_failures: Counters::default(),
            proxy_answer_micros: Histogram::new(MICROS_BOUNDS),
            webhooks: WebhookMetrics::default(),
            key_rotation: KeyRotationMetrics::default(),
            swept: Counters::default(),
            sweep_failures: Counters::default(),
            sweep_finished: Gauges::default(),
        }
    }

    /// Records the response of an operation. Three additions; no allocation, no lock.
    pub fn record_response(&self, operation: Operation, status: u16, duration: Duration) {
        let Some(metrics) = self.operations.get(operation.index()) else { return };
        let index = STATUSES.iter().position(|(it, _)| *it == status);
        let index = index.unwrap_or(STATUSES.len().saturating_sub(1));
        if let Some(counter) = metrics.statuses.get(index) {
            counter.increment();
        }
        metrics.micros.record(duration.as_micros().try_into().unwrap_or(u64::MAX));
    }
}

/// Metrics of rotations of sealing keys.
#[derive(Debug, Default)]
pub struct KeyRotationMetrics {
    /// Rows that this node sealed again.
    pub resealed: Counter,
    /// Failed steps of this node.
    pub failures: Counter,
    /// Tenants with more than one version, as of the last check.
    pub running: Gauge,
    /// Rows that cannot be opened, so that an old version stays.
    pub unopened: Gauge,
    /// The age of the oldest sealing key in seconds, as of the last check.
    pub oldest_key_seconds: Gauge,
    /// Sealing keys that are older than the setting allows, as of the last check.
    pub overdue: Gauge,
    /// The age of the vault key in seconds, as of the last check.
    pub vault_key_seconds: Gauge,
    /// 1 if the vault key is older than the setting allows.
    pub is_vault_key_overdue: Gauge,
}

labels! {
    /// How an attempt ended.
    pub enum AttemptLabel {
        Delivered "delivered",
        /// No answer, or an answer that is not a success.
        Failed "failed",
        /// The receiver answered 410.
        Gone "gone",
        /// The vault sent nothing.
        Postponed "postponed",
    }

    /// How a delivery ended.
    pub enum DeliveryLabel {
        Delivered "delivered",
        /// All attempts failed. The tenant can replay it.
        Exhausted "exhausted",
        /// Deleted without success, because the backlog of its webhook was too long.
        Dropped "dropped",
        /// The row was altered outside of the vault.
        Altered "altered",
    }

    /// Why the vault disabled a webhook.
    pub enum DisableReason {
        /// The receiver answered 410.
        Gone "gone",
        /// No delivery succeeded for five days.
        Exhausted "exhausted",
    }
}

#[derive(Debug)]
pub struct WebhookMetrics {
    pub attempts: Counters<AttemptLabel>,
    pub deliveries: Counters<DeliveryLabel>,
    pub disabled: Counters<DisableReason>,
    /// From the lookup of the receiver to its answer.
    pub attempt_micros: Histogram<16>,
    /// As of the last sweep.
    pub pending: Gauge,
    /// The age of the oldest pending event in seconds, as of the last sweep.
    pub oldest_pending_seconds: Gauge,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self {
            attempts: Counters::default(),
            deliveries: Counters::default(),
            disabled: Counters::default(),
            attempt_micros: Histogram::new(MICROS_BOUNDS),
            pending: Gauge::default(),
            oldest_pending_seconds: Gauge::default(),
        }
    }
}
