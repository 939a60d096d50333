//! Limits of a connection.

use std::time::Duration;

use scrip_api::app::limits::{MinimumRate, RATE_WINDOW};

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
