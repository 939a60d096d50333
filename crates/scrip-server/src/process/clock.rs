//! The one place that reads the wall clock.

pub mod steady;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::time::{ClockId, clock_gettime};
use scrip_core::time::{Clock, KnownTime, Timestamp};

use crate::process::clock::steady::{Notice, Reading, Steady, Times, Trust};

/// The wall clock itself: for a command, which ends before anything could happen to it.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else takes")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { unix_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX) }
    }
}

/// A server's clock, which the wall clock cannot carry away.
#[derive(Debug)]
pub struct SteadyClock {
    steady: Mutex<Steady>,
    trust: Trust,
}

impl SteadyClock {
    /// `known` is what the store has seen.
    #[must_use]
    pub fn start(known: Option<KnownTime>, trust: Trust) -> Self {
        Self { steady: Mutex::new(Steady::start(read(), known, trust)), trust }
    }

    fn times(&self) -> Times {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: of two readers the later must not bring the older reading.
        let (times, notice) = steady.observe(read());
        drop(steady);
        if let Some(notice) = notice {
            tell(notice);
        }
        times
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.times().now
    }

    fn earliest(&self) -> Timestamp {
        self.times().earliest
    }

    fn latest(&self) -> Timestamp {
        self.times().latest
    }

    fn start_after(&self, known: Option<KnownTime>) {
        let mut steady = self.steady.lock().unwrap_or_else(PoisonError::into_inner);
        *steady = Steady::start(read(), known, self.trust);
    }
}

fn tell(notice: Notice) {
    match notice {
        Notice::Apart(ahead_ms) => {
            tracing::error!(ahead_ms, "the wall clock was moved, and is not followed");
        }
        Notice::Followed(ahead_ms) => {
            tracing::warn!(ahead_ms, "the wall clock stayed ahead, and is followed now");
        }
        Notice::Together => tracing::info!("the wall clock agrees again"),
    }
}

/// How long this machine has been awake: for how long something took, never for when. Apart from
/// [`Clock`], whose milliseconds are too coarse and cost a lock.
#[must_use]
pub fn ticks() -> Duration {
    let counted = clock_gettime(ClockId::CLOCK_MONOTONIC);
    counted.map_or(Duration::ZERO, Duration::from)
}

fn read() -> Reading {
    let wall_ms = SystemClock.now().unix_ms;
    // A system without such a clock has only the wall, and none of the promises.
    let boot = clock_gettime(CARRYING).map(|it| {
        let ms = it.tv_nsec() / 1_000_000;
        it.tv_sec().saturating_mul(1000).saturating_add(ms)
    });
    Reading { wall_ms, boot_ms: boot.unwrap_or(wall_ms) }
}

/// The one that also counts while the machine sleeps.
#[cfg(target_os = "linux")]
const CARRYING: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CARRYING: ClockId = ClockId::CLOCK_MONOTONIC;
