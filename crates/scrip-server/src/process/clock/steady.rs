//! A clock that is not carried away: the wall clock at the start, then carried by one that nobody
//! can set, and brought back to the wall only slowly, or after the wall has had its say for long.
//!
//! Pure: the readings of both clocks are arguments. What is promised, and what is not, is in
//! `docs/decisions/0023-a-steady-clock.md`.

use std::time::Duration;

use scrip_core::time::{KnownTime, Timestamp};

/// Two clocks, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds of Unix time, as the machine believes.
    pub wall_ms: i64,
    /// Milliseconds since some start, which nobody can set; it counts while the machine sleeps.
    pub boot_ms: i64,
}

/// What the clock says, from the first that it can be to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub earliest: Timestamp,
    pub now: Timestamp,
    pub latest: Timestamp,
}

/// Whether a wall clock is believed at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Not before what the vault has seen; and nothing is destroyed on its word alone.
    Cautious,
    /// The operator has looked: it is right.
    Wall,
}

/// What somebody should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The wall clock is this much ahead, or behind when negative, and is not followed.
    Apart(i64),
    /// It was this much ahead for so long that it is followed now.
    Followed(i64),
    /// The two agree again.
    Together,
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
pub struct Steady {
    offset_ms: i64,
    /// Of the earliest it can be, while that is not the same.
    earliest_ms: Option<i64>,
    stance: Stance,
    /// When the wall clock was last looked at in earnest.
    looked_at: i64,
    /// What was said last: slewing back makes time stand for a moment, and never turn.
    said_ms: i64,
}

/// How the wall clock stands to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    /// Since when.
    Together {
        since: i64,
    },
    /// Since when, and its difference to the clock that nobody can set.
    Ahead {
        since: i64,
        offset_ms: i64,
    },
    Behind,
}

impl Steady {
    /// `known` is what the store has seen. The time between it and the wall clock was not lived
    /// through by anybody who could tell.
    #[must_use]
    pub fn start(reading: Reading, known: Option<KnownTime>, trust: Trust) -> Self {
        let wall = reading.offset_ms();
        let offset = |it: Timestamp| it.unix_ms.saturating_sub(reading.boot_ms);
        let known = known.filter(|_| trust == Trust::Cautious);
        let offset_ms = known.map_or(wall, |it| offset(it.now).max(wall));
        let earliest = known.map_or(wall, |it| offset(it.earliest).min(wall));
        let earliest_ms =
            Some(earliest).filter(|it| offset_ms.saturating_sub(*it) > ms(SLEW_WITHIN));
        let since = reading.boot_ms;
        Self {
            offset_ms,
            earliest_ms,
            stance: Stance::Together { since },
            looked_at: since,
            said_ms: i64::MIN,
        }
    }

    /// What time it is, by these readings and all before them.
    pub fn observe(&mut self, reading: Reading) -> (Times, Option<Notice>) {
        let ahead = reading.offset_ms().saturating_sub(self.offset_ms);
        let passed = reading.boot_ms.saturating_sub(self.looked_at);
        if passed >= SLEW_EVERY_MS {
            self.looked_at = reading.boot_ms;
        }
        let notice = if ahead.saturating_abs() <= ms(SLEW_WITHIN) {
            self.agree(reading, ahead, passed)
        } else if ahead > 0 {
            self.hold(reading, ahead)
        } else {
            let told = self.stance == Stance::Behind;
            self.stance = Stance::Behind;
            (!told).then_some(Notice::Apart(ahead))
        };
        (self.times(reading), notice)
    }

    fn agree(&mut self, reading: Reading, ahead: i64, passed: i64) -> Option<Notice> {
        if passed >= SLEW_EVERY_MS {
            let most = passed / SLEW_PARTS;
            self.offset_ms = self.offset_ms.saturating_add(ahead.clamp(-most, most));
        }
        match self.stance {
            Stance::Together { since } => {
                if reading.boot_ms.saturating_sub(since) >= ms(DESTROY_AFTER) {
                    self.earliest_ms = None;
                }
                None
            }
            Stance::Ahead { .. } | Stance::Behind => {
                self.stance = Stance::Together { since: reading.boot_ms };
                Some(Notice::Together)
            }
        }
    }

    fn hold(&mut self, reading: Reading, ahead: i64) -> Option<Notice> {
        let (boot, wall) = (reading.boot_ms, reading.offset_ms());
        match self.stance {
            Stance::Ahead { since, offset_ms }
                if wall.saturating_sub(offset_ms).saturating_abs() <= ms(SLEW_WITHIN) =>
            {
                if boot.saturating_sub(since) < ms(FOLLOW_AFTER) {
                    return None;
                }
                self.earliest_ms.get_or_insert(self.offset_ms);
                self.offset_ms = wall;
                self.stance = Stance::Together { since: boot };
                Some(Notice::Followed(ahead))
            }
            // A first jump, or another one: its time begins.
            Stance::Ahead { .. } | Stance::Together { .. } | Stance::Behind => {
                self.stance = Stance::Ahead { since: boot, offset_ms: wall };
                Some(Notice::Apart(ahead))
            }
        }
    }

    fn times(&mut self, reading: Reading) -> Times {
        let at = |offset: i64| Timestamp { unix_ms: reading.boot_ms.saturating_add(offset) };
        self.said_ms = self.said_ms.max(at(self.offset_ms).unix_ms);
        let now = Timestamp { unix_ms: self.said_ms };
        let latest = match self.stance {
            Stance::Ahead { .. } => Timestamp { unix_ms: reading.wall_ms.max(now.unix_ms) },
            Stance::Together { .. } | Stance::Behind => now,
        };
        Times { earliest: at(self.earliest_ms.unwrap_or(self.offset_ms)).min(now), now, latest }
    }
}

impl Reading {
    fn offset_ms(self) -> i64 {
        self.wall_ms.saturating_sub(self.boot_ms)
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
