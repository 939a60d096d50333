//! How much one client may ask of a connection.

use std::time::Duration;

use scrip_api::app::limits::{MinimumRate, RATE_WINDOW};

/// However few connections there may be, a client network may have so many of them.
const NETWORK_CONNECTIONS_MIN: usize = 8;
/// After so long without progress a client that is waited for is idle, unless another time is set.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// From the first byte of a request to the last of its head; also how long a connection idles.
    pub header_deadline: Duration,
    pub connections_max: usize,
    /// A client network may have one part in so many of the connections.
    pub connections_network_share: usize,
    /// From the start of a connection to its first byte.
    pub first_byte_deadline: Duration,
    /// How fast an answer must be read.
    pub response_rate: MinimumRate,
    /// After so long without progress, a request that waits for its body and an answer that is not
    /// read do not keep their connection from losing its slot.
    pub evictable_after: Duration,
    /// How long requests in flight may take to end when the server is told to stop.
    pub drain_deadline: Duration,
    /// The most that an authentication takes, which is waited for even then.
    pub authentication_deadline: Duration,
}

impl ConnectionLimits {
    /// How many of so many connections one client network may have.
    #[must_use]
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
