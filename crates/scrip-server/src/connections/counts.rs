//! Connection metrics.

use std::sync::atomic::AtomicUsize;

use scrip_api::{labels, metrics::label::Counters};
use scrip_core::types::metrics::Counter;

#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Number of open connections.
    pub open: AtomicUsize,
    pub accepted: Counter,
    pub rejected: Counters<ConnectionRejection>,
    pub evicted: Counters<EvictionReason>,
    pub closed: Counters<CloseReason>,
}

labels! {
    /// Why a connection was not accepted.
    pub enum ConnectionRejection {
        NetworkFull "network_full",
    }

    /// Why an idle connection was closed in favour of a new one.
    pub enum EvictionReason {
        Full "full",
        NetworkFull "network_full",
        /// The process has reached its limit of open files.
        Descriptors "descriptors",
    }

    /// Why the server closed a connection.
    pub enum CloseReason {
        /// No byte arrived before the deadline.
        NoFirstByte "no_first_byte",
        /// The client read nothing of a response for too long.
        ResponseNotRead "response_not_read",
        /// The client read a response below the minimum rate.
        ResponseTooSlow "response_rate",
    }
}
