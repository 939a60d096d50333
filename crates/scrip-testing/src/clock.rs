//! Clocks that only a test moves.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use scrip_core::time::{Clock, Timestamp};

/// When every test with a stopped clock begins.
pub const START: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

/// A clock that stands still between two moves.
#[derive(Debug)]
pub struct StoppedClock(AtomicI64);

impl StoppedClock {
    #[must_use]
    pub const fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.unix_ms))
    }

    pub fn advance(&self, by: Duration) {
        self.0.store(self.now().plus(by).unix_ms, Ordering::SeqCst);
    }

    /// Moves the clock, also back.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.unix_ms, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp { unix_ms: self.0.load(Ordering::SeqCst) }
    }
}

/// Another clock, moved by hand.
pub struct OffsetClock {
    base: Box<dyn Clock>,
    offset_ms: AtomicI64,
}

impl OffsetClock {
    #[must_use]
    pub fn new(base: impl Clock + 'static) -> Self {
        Self { base: Box::new(base), offset_ms: AtomicI64::new(0) }
    }

    pub fn advance(&self, by: Duration) {
        self.offset_ms.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        Timestamp { unix_ms: self.base.now().unix_ms + self.offset_ms.load(Ordering::SeqCst) }
    }
}

impl Default for StoppedClock {
    fn default() -> Self {
        Self::at(START)
    }
}
