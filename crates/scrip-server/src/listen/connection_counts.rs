//! What is counted of connections.

use std::sync::atomic::AtomicUsize;

use scrip_api::{labels, metrics::label::Counters};
use scrip_core::metrics::Counter;

#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// How many are open now.
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

    /// Why an idle connection lost its slot to a new one.
    pub enum EvictionReason {
        Full "full",
        NetworkFull "network_full",
        /// The process may open no more files.
        Descriptors "descriptors",
    }

    /// Why the server ended a connection.
    pub enum CloseReason {
        /// Nothing came within the first seconds.
        NoFirstByte "no_first_byte",
        /// The client took nothing of an answer for too long.
        ResponseNotRead "answer_not_read",
        /// The client took an answer below the minimum rate.
        ResponseTooSlow "answer_rate",
    }
}
