//! Tests of the clock with jumps, slews and different starts.

use super::*;

const START: i64 = 1_800_000_000_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A simulated machine: true time, error of its wall clock, and the clock under test.
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
        let timestamp = |it| Timestamp { unix_ms: it };
        let watermark =
            watermark_ms.map(|it| ClockWatermark { now: timestamp(it), earliest: timestamp(it) });
        let steady = SteadyTime::start(reading(START, error_ms), watermark, trust);
        Self { true_ms: START, error_ms, steady, notices: vec![] }
    }

    /// Advances time with one reading per second; returns the error of each bound.
    fn pass(&mut self, ms: i64) -> [i64; 3] {
        let end_ms = self.true_ms + ms;
        loop {
            let (bounds, notice) = self.steady.observe(reading(self.true_ms, self.error_ms));
            self.notices.extend(notice);
            assert!(bounds.earliest <= bounds.now && bounds.now <= bounds.latest);
            if self.true_ms >= end_ms {
                return [bounds.earliest, bounds.now, bounds.latest]
                    .map(|it| it.unix_ms - self.true_ms);
            }
            self.true_ms = (self.true_ms + 1000).min(end_ms);
        }
    }
}

#[test]
fn plausible_wall_clock_time_is_returned_unchanged() {
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

/// A small difference is slewed by 1/500 of the elapsed time, in either direction.
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
    let mut previous_ms = 0;
    for elapsed_ms in 0..100_000 {
        let (bounds, _) = steady.observe(reading(START + elapsed_ms, -59_000));
        assert!(bounds.now.unix_ms >= previous_ms, "at {elapsed_ms}");
        previous_ms = bounds.now.unix_ms;
    }
    // Also after a long difference that was not followed.
    for elapsed_ms in [100_000, DAY] {
        steady.observe(reading(START + elapsed_ms, -DAY));
    }
    let (bounds_behind, _) = steady.observe(reading(START + DAY + 1, -DAY));
    let (bounds_in_sync, _) = steady.observe(reading(START + DAY + 2, -59_000));
    assert!(bounds_in_sync.now >= bounds_behind.now);
}

/// Cases: error of the wall clock, watermark of the vault, expected bounds at start.
#[test]
fn start_bounds_follow_from_wall_clock_and_stored_time() {
    let cases = [
        // Right after a previous run.
        (0, Some(-10_000), [0, 0, 0]),
        // After three hours of downtime: this time does not yet count for destruction.
        (0, Some(-3 * HOUR), [-3 * HOUR, 0, 0]),
        // Wall clock behind: not earlier than the watermark, and nothing is destroyed.
        (-DAY, Some(-10_000), [-DAY, -10_000, -10_000]),
        // Wall clock ahead: more is hidden, nothing is destroyed.
        (DAY, Some(-10_000), [-10_000, DAY, DAY]),
        // After a run with a clock that was ahead.
        (0, Some(DAY), [0, DAY, DAY]),
        // A new vault.
        (-DAY, None, [-DAY, -DAY, -DAY]),
    ];
    for (error_ms, watermark, expected) in cases {
        let mut machine = Machine::start(error_ms, watermark.map(|it| START + it));
        let bounds = machine.pass(0);
        assert_eq!(bounds, expected, "wall clock error {error_ms}, watermark {watermark:?}");
    }
    let mut machine = Machine::start_with_trust(0, Some(START + DAY), StartTrust::Wall);
    assert_eq!(machine.pass(0), [0, 0, 0]);
}

/// The usual fault: the server started before the machine synchronized its clock.
#[test]
fn corrected_wrong_start_does_not_advance_the_earliest_bound() {
    let mut machine = Machine::start(DAY, Some(START - 1000));
    machine.pass(20 * MINUTE);
    machine.error_ms = 0;
    assert_eq!(machine.pass(2 * DAY), [-1000, DAY, DAY]);

    let mut machine = Machine::start(-DAY, Some(START - 3 * DAY));
    assert_eq!(machine.pass(20 * MINUTE), [-3 * DAY, -DAY, -DAY]);
    machine.error_ms = 0;
    // `latest` follows immediately, `now` after 5 minutes, `earliest` after 30 more minutes.
    assert_eq!(machine.pass(0), [-3 * DAY, -DAY, 0]);
    assert_eq!(machine.pass(5 * MINUTE), [-3 * DAY, 0, 0]);
    assert_eq!(machine.pass(30 * MINUTE), [0, 0, 0]);
}

/// The boot clock includes the time while the machine sleeps.
#[test]
fn machine_sleep_is_counted() {
    let mut machine = Machine::start(0, Some(START));
    machine.pass(MINUTE);
    machine.true_ms += DAY;
    assert_eq!(machine.pass(0), [0, 0, 0]);
    assert_eq!(machine.notices, []);
}

/// Two runs in sequence with a clock that is ahead: the second must not destroy data based on the
/// time of the first.
#[test]
fn wrong_clock_of_a_previous_run_does_not_advance_the_earliest_bound() {
    let start_plus = |it| Timestamp { unix_ms: START + it };
    let watermark = ClockWatermark { now: start_plus(HOUR), earliest: start_plus(-1000) };
    let mut steady = SteadyTime::start(reading(START, DAY), Some(watermark), StartTrust::Cautious);
    let (bounds, _) = steady.observe(reading(START, DAY));
    assert_eq!(
        [bounds.earliest, bounds.now, bounds.latest],
        [start_plus(-1000), start_plus(DAY), start_plus(DAY)]
    );
}
