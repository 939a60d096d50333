//! The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use scrip_core::time::{Clock, Timestamp};

#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else takes")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { unix_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX) }
    }
}
