//! A clock that is not carried away: the wall clock at the start, then carried by one that nobody
//! can set, and brought back to the wall only slowly, or after the wall has had its say for long.
//!
//! Pure: the readings of both clocks are arguments. What is promised, and what is not, is in
//! `docs/decisions/0023-a-steady-clock.md`.

use std::time::Duration;

use scrip_core::time::{ClockWatermark, Timestamp};

/// Two clocks, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Milliseconds of Unix time, as the machine believes.
    pub wall_ms: i64,
    /// Milliseconds since some start, which nobody can set; it counts while the machine sleeps.
    pub boot_ms: i64,
}

/// What the clock says, from the first that it can be to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    pub earliest: Timestamp,
    pub now: Timestamp,
    pub latest: Timestamp,
}

/// Whether a wall clock is believed at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTrust {
    /// Not before what the vault has seen; and nothing is destroyed on its word alone.
    Cautious,
    /// The operator has looked: it is right.
    Wall,
}

/// What somebody should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockNotice {
    /// The wall clock is this much ahead, or behind when negative, and is not followed.
    Diverged(i64),
    /// It was this much ahead for so long that it is followed now.
    Followed(i64),
    /// The two agree again.
    Converged,
}

/// Up to this much the wall clock is followed, slowly.
pub const SLEW_WITHIN: Duration = Duration::from_secs(60);
/// How slowly: by one part in so many of the time that passes.
const SLEW_PARTS: i64 = 500;
const SLEW_EVERY_MS: i64 = 1000;
/// A wall clock that is ahead for so long without a jump is right: the machine stood still, or had
/// started with a wrong clock. Meanwhile what it would hide is hidden.
pub const FOLLOW_AFTER: Duration = Duration::from_secs(5 * 60);
/// The two agree for so long before anything is destroyed by a time that was not lived through.
pub const DESTROY_AFTER: Duration = Duration::from_secs(30 * 60);

/// A time is a difference to the clock that nobody can set.
#[derive(Debug, Clone)]
pub struct SteadyTime {
    offset_ms: i64,
    /// Of the earliest it can be, while that is not the same.
    earliest_ms: Option<i64>,
    wall_state: WallClockState,
    /// When the wall clock was last looked at in earnest.
    checked_at_ms: i64,
    /// What was said last: slewing back makes time stand for a moment, and never turn.
    last_returned_ms: i64,
}

/// How the wall clock stands to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WallClockState {
    /// Since when.
    InSync {
        since: i64,
    },
    /// Since when, and its difference to the clock that nobody can set.
    Ahead {
        since: i64,
        offset_ms: i64,
    },
    Behind,
}

impl SteadyTime {
    /// `known` is what the store has seen. The time between it and the wall clock was not lived
    /// through by anybody who could tell.
    #[must_use]
    pub fn start(
        reading: ClockReading,
        watermark: Option<ClockWatermark>,
        trust: StartTrust,
    ) -> Self {
        let wall = reading.offset_ms();
        let offset = |it: Timestamp| it.unix_ms.saturating_sub(reading.boot_ms);
        let known = watermark.filter(|_| trust == StartTrust::Cautious);
        let offset_ms = known.map_or(wall, |it| offset(it.now).max(wall));
        let earliest = known.map_or(wall, |it| offset(it.earliest).min(wall));
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

    /// What time it is, by these readings and all before them.
    pub fn observe(&mut self, reading: ClockReading) -> (TimeBounds, Option<ClockNotice>) {
        let ahead = reading.offset_ms().saturating_sub(self.offset_ms);
        let passed = reading.boot_ms.saturating_sub(self.checked_at_ms);
        if passed >= SLEW_EVERY_MS {
            self.checked_at_ms = reading.boot_ms;
        }
        let notice = if ahead.saturating_abs() <= to_ms(SLEW_WITHIN) {
            self.slew(reading, ahead, passed)
        } else if ahead > 0 {
            self.handle_ahead(reading, ahead)
        } else {
            let told = self.wall_state == WallClockState::Behind;
            self.wall_state = WallClockState::Behind;
            (!told).then_some(ClockNotice::Diverged(ahead))
        };
        (self.time_bounds(reading), notice)
    }

    fn slew(&mut self, reading: ClockReading, ahead: i64, passed: i64) -> Option<ClockNotice> {
        if passed >= SLEW_EVERY_MS {
            let maximum = passed / SLEW_PARTS;
            self.offset_ms = self.offset_ms.saturating_add(ahead.clamp(-maximum, maximum));
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

    fn handle_ahead(&mut self, reading: ClockReading, ahead: i64) -> Option<ClockNotice> {
        let (boot, wall) = (reading.boot_ms, reading.offset_ms());
        match self.wall_state {
            WallClockState::Ahead { since, offset_ms }
                if wall.saturating_sub(offset_ms).saturating_abs() <= to_ms(SLEW_WITHIN) =>
            {
                if boot.saturating_sub(since) < to_ms(FOLLOW_AFTER) {
                    return None;
                }
                self.earliest_ms.get_or_insert(self.offset_ms);
                self.offset_ms = wall;
                self.wall_state = WallClockState::InSync { since: boot };
                Some(ClockNotice::Followed(ahead))
            }
            // A first jump, or another one: its time begins.
            WallClockState::Ahead { .. }
            | WallClockState::InSync { .. }
            | WallClockState::Behind => {
                self.wall_state = WallClockState::Ahead { since: boot, offset_ms: wall };
                Some(ClockNotice::Diverged(ahead))
            }
        }
    }

    fn time_bounds(&mut self, reading: ClockReading) -> TimeBounds {
        let at = |offset: i64| Timestamp { unix_ms: reading.boot_ms.saturating_add(offset) };
        self.last_returned_ms = self.last_returned_ms.max(at(self.offset_ms).unix_ms);
        let now = Timestamp { unix_ms: self.last_returned_ms };
        let latest = match self.wall_state {
            WallClockState::Ahead { .. } => Timestamp { unix_ms: reading.wall_ms.max(now.unix_ms) },
            WallClockState::InSync { .. } | WallClockState::Behind => now,
        };
        TimeBounds {
            earliest: at(self.earliest_ms.unwrap_or(self.offset_ms)).min(now),
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
