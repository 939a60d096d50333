//! Limits of a single request.

use std::time::Duration;

/// Long enough to tolerate a short stall of the network.
pub const RATE_WINDOW: Duration = Duration::from_secs(30);

/// Size, time and rate limits of a request.
#[derive(Debug, Clone)]
pub struct RequestLimits {
    pub body_bytes_max: usize,
    /// The time from the last byte of the head to the last byte of the body.
    pub body_deadline: Duration,
    /// The same for routes that need no key.
    pub keyless_body_deadline: Duration,
    /// The minimum rate at which a body must arrive.
    pub request_rate: MinimumRate,
}

impl RequestLimits {
    /// Requests without a key have less time, because anyone can send them.
    pub(crate) fn keyless_deadline(&self) -> Duration {
        self.body_deadline.min(self.keyless_body_deadline)
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            body_deadline: Duration::from_secs(30),
            keyless_body_deadline: Duration::from_secs(5),
            request_rate: MinimumRate { bytes_per_second: 256, window: RATE_WINDOW },
        }
    }
}

/// The minimum transfer rate, checked once per window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumRate {
    /// 0 disables the minimum.
    pub bytes_per_second: u32,
    pub window: Duration,
}

impl MinimumRate {
    /// Returns whether this number of bytes in one window is too small.
    pub fn is_missed(&self, bytes: u64) -> bool {
        let expected = self.window.as_millis().saturating_mul(self.bytes_per_second.into());
        u128::from(bytes).saturating_mul(1000) < expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_compared_over_the_whole_window() {
        let rate = MinimumRate { bytes_per_second: 256, window: Duration::from_secs(30) };
        assert!(rate.is_missed(7_679));
        assert!(!rate.is_missed(7_680));
        assert!(!MinimumRate { bytes_per_second: 0, ..rate }.is_missed(0));
    }
}
