//! What is counted of connections.

use std::sync::atomic::AtomicUsize;

use scrip_api::{labels, metrics::label::Counters};
use scrip_core::measure::Counter;

#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// How many are open now.
    pub open: AtomicUsize,
    pub accepted: Counter,
    pub refused: Counters<ConnectionRefused>,
    pub evicted: Counters<ConnectionEvicted>,
    pub cut: Counters<Cut>,
}

labels! {
    /// Why a connection was not accepted.
    pub enum ConnectionRefused {
        NetworkFull "network_full",
    }

    /// Why an idle connection lost its slot to a new one.
    pub enum ConnectionEvicted {
        Full "full",
        NetworkFull "network_full",
        /// The process may open no more files.
        Descriptors "descriptors",
    }

    /// Why the server ended a connection.
    pub enum Cut {
        /// Nothing came within the first seconds.
        NoFirstByte "no_first_byte",
        /// The client took nothing of an answer for too long.
        AnswerNotRead "answer_not_read",
        /// The client took an answer below the minimum rate.
        AnswerRate "answer_rate",
    }
}
