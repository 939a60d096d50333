//! The only module that reads the clock.

use std::time::{Duration, Instant, SystemTime};

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, to compare with times that the server wrote.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn unix_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

/// Whole microseconds, capped at about an hour.
pub(crate) fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
