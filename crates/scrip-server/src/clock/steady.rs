//! A steady clock: it starts from the wall clock, advances with the boot clock, which cannot be
//! set, and follows the wall clock only slowly, or after a difference has lasted long enough.
//!
//! All readings are arguments. `docs/decisions/0023-a-steady-clock.md` has the guarantees and their
//! limits.

use std::time::Duration;

use scrip_core::{Timestamp, types::time::ClockWatermark};

/// Readings of both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Unix time in milliseconds, from the wall clock.
    pub wall_ms: i64,
    /// Milliseconds of the boot clock, which cannot be set and advances while the machine sleeps.
    pub boot_ms: i64,
}

/// The current time, with the earliest and latest possible time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    pub earliest: Timestamp,
    pub now: Timestamp,
    pub latest: Timestamp,
}

/// Whether the wall clock is trusted at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTrust {
    /// Never earlier than the watermark of the vault; nothing is destroyed based on the wall clock
    /// alone.
    Cautious,
    /// The operator has checked the wall clock.
    Wall,
}

/// Events for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockNotice {
    /// The wall clock is ahead by this amount, or behind if negative, and is not followed.
    Diverged(i64),
    /// The wall clock was ahead by this amount for so long that it is followed now.
    Followed(i64),
    /// Both clocks agree again.
    Converged,
}

/// Up to this difference the wall clock is followed slowly.
pub const SLEW_WITHIN: Duration = Duration::from_secs(60);
/// Slew rate: one part in this many of the elapsed time.
const SLEW_PARTS: i64 = 500;
const SLEW_EVERY_MS: i64 = 1000;
/// A wall clock that stays ahead for this long without a jump is considered right: the machine was
/// suspended, or started with a wrong clock. Until then, `latest` already hides expired data.
pub const FOLLOW_AFTER: Duration = Duration::from_secs(5 * 60);
/// Both clocks must agree for this long before data is destroyed based on a time that this process
/// did not observe.
pub const DESTROY_AFTER: Duration = Duration::from_secs(30 * 60);

/// Time as an offset to the boot clock.
#[derive(Debug, Clone)]
pub struct SteadyTime {
    offset_ms: i64,
    /// Offset of the earliest possible time, if it differs.
    earliest_ms: Option<i64>,
    wall_state: WallClockState,
    /// Boot clock at the last slew.
    checked_at_ms: i64,
    /// The last returned time: slewing back can stop time briefly, but never reverses it.
    last_returned_ms: i64,
}

/// Relation of the wall clock to this clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WallClockState {
    /// Both agree, since this boot time.
    InSync {
        since: i64,
    },
    /// The wall clock is ahead, since this boot time, with this offset to the boot clock.
    Ahead {
        since: i64,
        offset_ms: i64,
    },
    Behind,
}

impl SteadyTime {
    /// `watermark` is the latest time that the store has recorded. No process observed the time
    /// between the watermark and the wall clock.
    pub fn start(
        reading: ClockReading,
        watermark: Option<ClockWatermark>,
        trust: StartTrust,
    ) -> Self {
        let wall = reading.offset_ms();
        let offset = |it: Timestamp| it.unix_ms.saturating_sub(reading.boot_ms);
        let trusted_watermark = watermark.filter(|_| trust == StartTrust::Cautious);
        let offset_ms = trusted_watermark.map_or(wall, |it| offset(it.now).max(wall));
        let earliest = trusted_watermark.map_or(wall, |it| offset(it.earliest).min(wall));
        let earliest_ms =
            Some(earliest).filter(|it| offset_ms.saturating_sub(*it) > to_ms(SLEW_WITHIN));
        let since = reading.boot_ms;
        Self {
            offset_ms,
            earliest_ms,
            wall_state: WallClockState::InSync { since },
            checked_at_ms: since,
            last_returned_ms: i64::MIN,
        }
    }

    /// Returns the time for this reading, and an event for the log.
    pub fn observe(&mut self, reading: ClockReading) -> (TimeBounds, Option<ClockNotice>) {
        let ahead_ms = reading.offset_ms().saturating_sub(self.offset_ms);
        let elapsed_ms = reading.boot_ms.saturating_sub(self.checked_at_ms);
        if elapsed_ms >= SLEW_EVERY_MS {
            self.checked_at_ms = reading.boot_ms;
        }
        let notice = if ahead_ms.saturating_abs() <= to_ms(SLEW_WITHIN) {
            self.slew(reading, ahead_ms, elapsed_ms)
        } else if ahead_ms > 0 {
            self.handle_ahead(reading, ahead_ms)
        } else {
            let was_behind = self.wall_state == WallClockState::Behind;
            self.wall_state = WallClockState::Behind;
            (!was_behind).then_some(ClockNotice::Diverged(ahead_ms))
        };
        (self.time_bounds(reading), notice)
    }

    fn slew(
        &mut self,
        reading: ClockReading,
        ahead_ms: i64,
        elapsed_ms: i64,
    ) -> Option<ClockNotice> {
        if elapsed_ms >= SLEW_EVERY_MS {
            let maximum = elapsed_ms / SLEW_PARTS;
            self.offset_ms = self.offset_ms.saturating_add(ahead_ms.clamp(-maximum, maximum));
        }
        match self.wall_state {
            WallClockState::InSync { since } => {
                if reading.boot_ms.saturating_sub(since) >= to_ms(DESTROY_AFTER) {
                    self.earliest_ms = None;
                }
                None
            }
            WallClockState::Ahead { .. } | WallClockState::Behind => {
                self.wall_state = WallClockState::InSync { since: reading.boot_ms };
                Some(ClockNotice::Converged)
            }
        }
    }

    fn handle_ahead(&mut self, reading: ClockReading, ahead_ms: i64) -> Option<ClockNotice> {
        let (boot_ms, wall_offset_ms) = (reading.boot_ms, reading.offset_ms());
        match self.wall_state {
            WallClockState::Ahead { since, offset_ms }
                if wall_offset_ms.saturating_sub(offset_ms).saturating_abs()
                    <= to_ms(SLEW_WITHIN) =>
            {
                if boot_ms.saturating_sub(since) < to_ms(FOLLOW_AFTER) {
                    return None;
                }
                self.earliest_ms.get_or_insert(self.offset_ms);
                self.offset_ms = wall_offset_ms;
                self.wall_state = WallClockState::InSync { since: boot_ms };
                Some(ClockNotice::Followed(ahead_ms))
            }
            // A first or a further jump: restart the delay.
            WallClockState::Ahead { .. }
            | WallClockState::InSync { .. }
            | WallClockState::Behind => {
                self.wall_state =
                    WallClockState::Ahead { since: boot_ms, offset_ms: wall_offset_ms };
                Some(ClockNotice::Diverged(ahead_ms))
            }
        }
    }

    fn time_bounds(&mut self, reading: ClockReading) -> TimeBounds {
        let time_with_offset =
            |offset: i64| Timestamp { unix_ms: reading.boot_ms.saturating_add(offset) };
        self.last_returned_ms = self.last_returned_ms.max(time_with_offset(self.offset_ms).unix_ms);
        let now = Timestamp { unix_ms: self.last_returned_ms };
        let latest = match self.wall_state {
            WallClockState::Ahead { .. } => Timestamp { unix_ms: reading.wall_ms.max(now.unix_ms) },
            WallClockState::InSync { .. } | WallClockState::Behind => now,
        };
        TimeBounds {
            earliest: time_with_offset(self.earliest_ms.unwrap_or(self.offset_ms)).min(now),
            now,
            latest,
        }
    }
}

impl ClockReading {
    fn offset_ms(self) -> i64 {
        self.wall_ms.saturating_sub(self.boot_ms)
    }
}

fn to_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
