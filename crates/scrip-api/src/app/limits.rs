//! How much one request may take.

use std::time::Duration;

/// Long enough that a short stall of a network does not count.
pub const RATE_WINDOW: Duration = Duration::from_secs(30);

/// How much one client may ask of a request.
#[derive(Debug, Clone)]
pub struct RequestLimits {
    pub body_bytes_max: usize,
    /// From the last byte of the head to the last of the body.
    pub body_deadline: Duration,
    /// The same, where no key is needed.
    pub keyless_body_deadline: Duration,
    /// How fast a body must arrive.
    pub request_rate: MinimumRate,
}

impl RequestLimits {
    /// For a request that needs no key, which anybody can send: it has less time.
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

/// How many bytes must pass in each window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinimumRate {
    /// Zero for no minimum.
    pub bytes_per_second: u32,
    pub window: Duration,
}

impl MinimumRate {
    /// Whether so many bytes in one window are too few.
    #[must_use]
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
