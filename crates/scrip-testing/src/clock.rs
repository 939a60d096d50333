//! Clocks that only tests advance.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use scrip_core::{Timestamp, types::time::Clock};

/// The start time of every test with a stopped clock.
pub const START: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

/// A clock that only moves when a test sets it.
#[derive(Debug)]
pub struct StoppedClock(AtomicI64);

impl StoppedClock {
    pub const fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.unix_ms))
    }

    pub fn advance(&self, duration: Duration) {
        self.0.store(self.now().plus(duration).unix_ms, Ordering::SeqCst);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.unix_ms, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp { unix_ms: self.0.load(Ordering::SeqCst) }
    }
}

/// A clock with an adjustable offset to another clock.
pub struct OffsetClock {
    base: Box<dyn Clock>,
    offset_ms: AtomicI64,
}

impl OffsetClock {
    pub fn new(base: impl Clock + 'static) -> Self {
        Self { base: Box::new(base), offset_ms: AtomicI64::new(0) }
    }

    pub fn advance(&self, duration: Duration) {
        self.offset_ms.fetch_add(i64::try_from(duration.as_millis()).unwrap(), Ordering::SeqCst);
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
