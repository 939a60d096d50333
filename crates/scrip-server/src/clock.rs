//! The only module that reads the wall clock.

pub mod steady;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::time::{ClockId, clock_gettime};
use scrip_core::{
    Timestamp,
    types::time::{Clock, ClockWatermark},
};

use crate::clock::steady::{ClockNotice, ClockReading, StartTrust, SteadyTime, TimeBounds};

/// The plain wall clock, for short-lived commands.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp { unix_ms: i64::try_from(unix_time().as_millis()).unwrap_or(i64::MAX) }
    }
}

/// The wall clock with the resolution of the system, for traces.
#[expect(clippy::disallowed_methods, reason = "this is the clock that all other code uses")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The clock of a server, which does not follow jumps of the wall clock.
#[derive(Debug)]
pub struct SteadyClock {
    state: Mutex<SteadyTime>,
    trust: StartTrust,
}

impl SteadyClock {
    /// `watermark` is the latest time that the store has recorded.
    pub fn start(watermark: Option<ClockWatermark>, trust: StartTrust) -> Self {
        Self { state: Mutex::new(SteadyTime::start(read_clocks(), watermark, trust)), trust }
    }

    fn time_bounds(&self) -> TimeBounds {
        let mut steady = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: otherwise a concurrent caller could apply an older reading later.
        let (bounds, notice) = steady.observe(read_clocks());
        drop(steady);
        if let Some(notice) = notice {
            log_notice(notice);
        }
        bounds
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.time_bounds().now
    }

    fn earliest(&self) -> Timestamp {
        self.time_bounds().earliest
    }

    fn latest(&self) -> Timestamp {
        self.time_bounds().latest
    }

    fn start_after(&self, watermark: Option<ClockWatermark>) {
        let mut steady = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *steady = SteadyTime::start(read_clocks(), watermark, self.trust);
    }
}

fn log_notice(notice: ClockNotice) {
    match notice {
        ClockNotice::Diverged(ahead_ms) => {
            tracing::error!(
                ahead_ms,
                "the wall clock jumped and is not followed; check the time of this machine"
            );
        }
        ClockNotice::Followed(ahead_ms) => {
            tracing::warn!(ahead_ms, "the wall clock stayed ahead and is followed now");
        }
        ClockNotice::Converged => tracing::info!("the wall clock is in sync again"),
    }
}

/// Time since boot, without sleep: for durations only. [`Clock`] has a resolution of milliseconds
/// and takes a lock.
pub fn ticks() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    time.map_or(Duration::ZERO, Duration::from)
}

fn read_clocks() -> ClockReading {
    let wall_ms = SystemClock.now().unix_ms;
    // A system without such a clock uses the wall clock alone, without protection against jumps.
    let boot_ms = clock_gettime(STEADY_CLOCK_ID).map(|it| {
        let ms = it.tv_nsec() / 1_000_000;
        it.tv_sec().saturating_mul(1000).saturating_add(ms)
    });
    ClockReading { wall_ms, boot_ms: boot_ms.unwrap_or(wall_ms) }
}

/// Includes the time while the machine sleeps.
#[cfg(target_os = "linux")]
const STEADY_CLOCK_ID: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const STEADY_CLOCK_ID: ClockId = ClockId::CLOCK_MONOTONIC;
