//! Connections of all listeners: their limits, counts and activity.

pub(crate) mod limited_stream;
pub(crate) mod table;

use std::{sync::atomic::AtomicUsize, time::Duration};

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use scrip_api::{
    app::limits::{MinimumRate, RATE_WINDOW},
    labels,
    metrics::label::Counters,
};
use scrip_core::types::metrics::Counter;

/// Creates a builder of HTTP/1.1 connections. The head of a request must arrive within
/// `header_deadline` and fit into the buffer.
pub(crate) fn http1_builder(header_deadline: Duration, buffer_bytes_max: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_deadline)
        .max_buf_size(buffer_bytes_max);
    builder
}

/// Connection metrics.
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

/// A client network may always have this many connections.
const NETWORK_CONNECTIONS_MIN: usize = 8;
/// Default time without progress after which a connection that waits for its client counts as idle.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// From the first byte of a request to the end of its head; also the idle timeout of a
    /// connection.
    pub header_deadline: Duration,
    pub connections_max: usize,
    /// A client network may use one part in this many of the connections.
    pub connections_network_share: usize,
    /// From accept to the first byte.
    pub first_byte_deadline: Duration,
    /// Minimum rate at which a response must be read.
    pub response_rate: MinimumRate,
    /// After this long without progress, a connection can be evicted while a request waits for its
    /// body or a response is not read.
    pub evictable_after: Duration,
    /// Maximum time for requests in flight after a stop signal.
    pub drain_deadline: Duration,
    /// Maximum duration of an authentication; the server waits for it even past the drain deadline.
    pub authentication_deadline: Duration,
}

impl ConnectionLimits {
    /// Number of connections, of `connections` in total, that one client network may have.
    pub fn network_connections(&self, connections: usize) -> usize {
        let share = connections.checked_div(self.connections_network_share);
        share.unwrap_or(connections).max(NETWORK_CONNECTIONS_MIN)
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            header_deadline: Duration::from_secs(30),
            connections_max: 4096,
            connections_network_share: 16,
            first_byte_deadline: Duration::from_secs(10),
            response_rate: MinimumRate { bytes_per_second: 1024, window: RATE_WINDOW },
            evictable_after: STALLED_AFTER,
            drain_deadline: Duration::from_secs(10),
            authentication_deadline: Duration::from_secs(60),
        }
    }
}
