//! What the clock makes of jumps, slews and starts, case by case.

use super::*;

const START: i64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A machine: true time, how wrong its wall clock is, and the clock under test.
struct Machine {
    true_ms: i64,
    error_ms: i64,
    steady: SteadyTime,
    notices: Vec<ClockNotice>,
}

fn reading(true_ms: i64, error_ms: i64) -> ClockReading {
    ClockReading { wall_ms: true_ms + error_ms, boot_ms: true_ms - START + 77_000 }
}

impl Machine {
    fn start(error_ms: i64, watermark_ms: Option<i64>) -> Self {
        Self::start_with_trust(error_ms, watermark_ms, StartTrust::Cautious)
    }

    fn start_with_trust(error_ms: i64, watermark_ms: Option<i64>, trust: StartTrust) -> Self {
        let at = |it| Timestamp { unix_ms: it };
        let known = watermark_ms.map(|it| ClockWatermark { now: at(it), earliest: at(it) });
        let steady = SteadyTime::start(reading(START, error_ms), known, trust);
        Self { true_ms: START, error_ms, steady, notices: vec![] }
    }

    /// Lets time pass, with a look at every second of it; how far each reading is from the truth.
    fn pass(&mut self, ms: i64) -> [i64; 3] {
        let end = self.true_ms + ms;
        loop {
            let (times, notice) = self.steady.observe(reading(self.true_ms, self.error_ms));
            self.notices.extend(notice);
            assert!(times.earliest <= times.now && times.now <= times.latest);
            if self.true_ms >= end {
                return [times.earliest, times.now, times.latest]
                    .map(|it| it.unix_ms - self.true_ms);
            }
            self.true_ms = (self.true_ms + 1000).min(end);
        }
    }
}

#[test]
fn correct_wall_clock_is_returned_unchanged() {
    let mut machine = Machine::start(0, None);
    assert_eq!(machine.pass(DAY), [0, 0, 0]);
    assert_eq!(machine.notices, []);
}

#[test]
fn temporary_jump_ahead_only_raises_the_latest_bound() {
    let mut machine = Machine::start(0, Some(START));
    machine.pass(HOUR);
    machine.error_ms = DAY;
    assert_eq!(machine.pass(0), [0, 0, DAY]);
    assert_eq!(machine.pass(4 * MINUTE), [0, 0, DAY]);
    machine.error_ms = 0;
    assert_eq!(machine.pass(DAY), [0, 0, 0]);
    assert_eq!(machine.notices, [ClockNotice::Diverged(DAY), ClockNotice::Converged]);
}

#[test]
fn wall_clock_set_back_is_never_followed() {
    let mut machine = Machine::start(0, Some(START));
    machine.error_ms = -DAY;
    assert_eq!(machine.pass(3 * DAY), [0, 0, 0]);
    assert_eq!(machine.notices, [ClockNotice::Diverged(-DAY)]);
}

#[test]
fn wall_clock_that_stays_ahead_is_followed_and_earliest_catches_up_later() {
    let mut machine = Machine::start(0, Some(START));
    machine.error_ms = DAY;
    assert_eq!(machine.pass(5 * MINUTE - 1000), [0, 0, DAY]);
    assert_eq!(machine.pass(1000), [0, DAY, DAY]);
    assert_eq!(machine.pass(30 * MINUTE - 1000), [0, DAY, DAY]);
    assert_eq!(machine.pass(1000), [DAY, DAY, DAY]);
    assert_eq!(machine.notices, [ClockNotice::Diverged(DAY), ClockNotice::Followed(DAY)]);
}

#[test]
fn each_further_jump_restarts_the_follow_delay() {
    let mut machine = Machine::start(0, Some(START));
    for days in 1..=6 {
        machine.error_ms = days * DAY;
        assert_eq!(machine.pass(4 * MINUTE), [0, 0, days * DAY]);
    }
}

/// A small difference is followed by a five-hundredth of what passes, in either direction.
#[test]
fn small_difference_is_slewed() {
    for sign in [1, -1] {
        let mut machine = Machine::start(0, Some(START));
        machine.error_ms = sign * 30_000;
        assert_eq!(machine.pass(HOUR), [sign * 7200; 3]);
        assert_eq!(machine.pass(4 * HOUR), [sign * 30_000; 3]);
        assert_eq!(machine.notices, []);
    }
}

#[test]
fn time_never_goes_backwards() {
    let mut steady = SteadyTime::start(reading(START, 0), None, StartTrust::Cautious);
    let mut output = 0;
    for at in 0..100_000 {
        let (times, _) = steady.observe(reading(START + at, -59_000));
        assert!(times.now.unix_ms >= output, "at {at}");
        output = times.now.unix_ms;
    }
    // Nor after a long difference that was not followed.
    for at in [100_000, DAY] {
        steady.observe(reading(START + at, -DAY));
    }
    let (before, _) = steady.observe(reading(START + DAY + 1, -DAY));
    let (after, _) = steady.observe(reading(START + DAY + 2, -59_000));
    assert!(after.now >= before.now);
}

/// How wrong the wall is, what the vault knows, and what is made of it at once.
#[test]
fn start_bounds_follow_from_wall_clock_and_stored_time() {
    let cases = [
        // Right after a run.
        (0, Some(-10_000), [0, 0, 0]),
        // After a rest of three hours: nothing is destroyed by them yet.
        (0, Some(-3 * HOUR), [-3 * HOUR, 0, 0]),
        // With a clock that is behind: not before what was seen, and nothing is destroyed.
        (-DAY, Some(-10_000), [-DAY, -10_000, -10_000]),
        // With one that is ahead: more is hidden, nothing is destroyed.
        (DAY, Some(-10_000), [-10_000, DAY, DAY]),
        // After a run whose clock was ahead.
        (0, Some(DAY), [0, DAY, DAY]),
        // Of a new vault.
        (-DAY, None, [-DAY, -DAY, -DAY]),
    ];
    for (error, known, expected) in cases {
        let mut machine = Machine::start(error, known.map(|it| START + it));
        assert_eq!(machine.pass(0), expected, "{error} {known:?}");
    }
    let mut machine = Machine::start_with_trust(0, Some(START + DAY), StartTrust::Wall);
    assert_eq!(machine.pass(0), [0, 0, 0]);
}

/// The usual fault: started before the machine had asked anybody for the time.
#[test]
fn corrected_wrong_start_does_not_advance_the_earliest_bound() {
    let mut machine = Machine::start(DAY, Some(START - 1000));
    machine.pass(20 * MINUTE);
    machine.error_ms = 0;
    assert_eq!(machine.pass(2 * DAY), [-1000, DAY, DAY]);

    let mut machine = Machine::start(-DAY, Some(START - 3 * DAY));
    assert_eq!(machine.pass(20 * MINUTE), [-3 * DAY, -DAY, -DAY]);
    machine.error_ms = 0;
    // Hidden at once, written from in five minutes, destroyed by in half an hour more.
    assert_eq!(machine.pass(0), [-3 * DAY, -DAY, 0]);
    assert_eq!(machine.pass(5 * MINUTE), [-3 * DAY, 0, 0]);
    assert_eq!(machine.pass(30 * MINUTE), [0, 0, 0]);
}

/// A machine that slept: the clock that nobody can set has counted it.
#[test]
fn machine_sleep_is_counted() {
    let mut machine = Machine::start(0, Some(START));
    machine.pass(MINUTE);
    machine.true_ms += DAY;
    assert_eq!(machine.pass(0), [0, 0, 0]);
    assert_eq!(machine.notices, []);
}

/// One run after another with a clock that is ahead: what the first one took for now is not what the
/// second may destroy by.
#[test]
fn wrong_clock_of_a_previous_run_does_not_advance_the_earliest_bound() {
    let at = |it| Timestamp { unix_ms: START + it };
    let known = ClockWatermark { now: at(HOUR), earliest: at(-1000) };
    let mut steady = SteadyTime::start(reading(START, DAY), Some(known), StartTrust::Cautious);
    let (times, _) = steady.observe(reading(START, DAY));
    assert_eq!([times.earliest, times.now, times.latest], [at(-1000), at(DAY), at(DAY)]);
}
