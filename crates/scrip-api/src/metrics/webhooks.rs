//! Metrics of deliveries to webhooks.

use scrip_core::types::metrics::{Gauge, Histogram, MICROS_BOUNDS};

use crate::{labels, metrics::Counters};

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
