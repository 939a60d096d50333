//! When the next attempt of a delivery follows a failed one.
//!
//! The delays grow to 24 hours, so that a receiver that is down for a minute gets its events soon,
//! and one that is down for days is not flooded.

use std::time::Duration;

use crate::Timestamp;

/// The attempts of a delivery, including the one that just failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// At least 1.
    pub attempts: u32,
    pub first_attempt_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    At(Timestamp),
    /// The period of the delivery is over. Only a replay delivers the event.
    Exhausted,
}

/// No attempt is later than this after the first one.
pub const DELIVERY_PERIOD: Duration = Duration::from_secs(5 * 24 * 60 * 60);
/// A receiver cannot postpone the next attempt by more.
pub(crate) const RETRY_AFTER_MAX: Duration = LAST_DELAY;

/// The delays after the first attempts.
const DELAYS: [Duration; 8] = [
    Duration::from_secs(5),
    minutes(5),
    minutes(30),
    hours(2),
    hours(5),
    hours(10),
    hours(14),
    hours(20),
];
/// The delay after all other attempts.
const LAST_DELAY: Duration = hours(24);

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

const fn hours(count: u64) -> Duration {
    minutes(count * 60)
}

impl DeliveryProgress {
    /// Plans the next attempt after a failed one. `random` spreads attempts that failed together by
    /// 10 % in both directions.
    ///
    /// A receiver can lengthen the delay with `Retry-After`, but not shorten it: otherwise one that
    /// always fails would get requests without a pause.
    pub fn next_attempt(
        self,
        now: Timestamp,
        retry_after: Option<Duration>,
        random: u32,
    ) -> NextAttempt {
        let index = usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let delay = DELAYS.get(index).copied().unwrap_or(LAST_DELAY);
        let planned = scale(delay, 900, random, 200);
        // Never earlier than the receiver asked for.
        let requested = retry_after.map(|it| scale(it.min(RETRY_AFTER_MAX), 1000, random, 100));
        let next = now.plus(requested.map_or(planned, |it| it.max(planned)));
        let end = self.first_attempt_at.plus(DELIVERY_PERIOD);
        if next > end { NextAttempt::Exhausted } else { NextAttempt::At(next) }
    }
}

/// The duration in thousandths from `least` to `least + spread`, chosen by `random`.
fn scale(duration: Duration, least: u64, random: u32, spread: u64) -> Duration {
    let steps = spread.saturating_add(1);
    let share = u64::from(random).saturating_mul(steps) >> 32;
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(ms.saturating_mul(least.saturating_add(share)) / 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp { unix_ms: 1_700_000_000_000 };
    /// The middle of the spread: no jitter.
    const MIDDLE: u32 = u32::MAX / 2;

    fn next(
        attempts: u32,
        elapsed: Duration,
        retry_after: Option<Duration>,
        random: u32,
    ) -> NextAttempt {
        let progress = DeliveryProgress { attempts, first_attempt_at: START };
        progress.next_attempt(START.plus(elapsed), retry_after, random)
    }

    #[track_caller]
    fn check_delay(attempts: u32, retry_after: Option<Duration>, random: u32, expected: Duration) {
        let actual = next(attempts, Duration::ZERO, retry_after, random);
        assert_eq!(actual, NextAttempt::At(START.plus(expected)), "after attempt {attempts}");
    }

    /// Runs a delivery that always fails. Returns the times of its attempts.
    fn run_schedule(random: u32) -> Vec<Duration> {
        let mut times = vec![Duration::ZERO];
        loop {
            let attempts = u32::try_from(times.len()).unwrap();
            match next(attempts, *times.last().unwrap(), None, random) {
                NextAttempt::Exhausted => return times,
                NextAttempt::At(at) => {
                    let elapsed = u64::try_from(at.unix_ms - START.unix_ms).unwrap();
                    times.push(Duration::from_millis(elapsed));
                }
            }
        }
    }

    #[test]
    fn delays_grow_from_five_seconds_to_a_day() {
        let delays = [
            Duration::from_secs(5),
            minutes(5),
            minutes(30),
            hours(2),
            hours(5),
            hours(10),
            hours(14),
            hours(20),
            hours(24),
            hours(24),
        ];
        for (attempts, delay) in (1..).zip(delays) {
            check_delay(attempts, None, MIDDLE, delay);
        }
        check_delay(u32::MAX, None, MIDDLE, hours(24));
        check_delay(0, None, MIDDLE, Duration::from_secs(5));
    }

    #[test]
    fn jitter_is_ten_percent_in_both_directions() {
        check_delay(2, None, 0, Duration::from_secs(270));
        check_delay(2, None, u32::MAX, Duration::from_secs(330));
    }

    #[test]
    fn retry_after_lengthens_the_delay_up_to_a_day() {
        let cases = [
            (Duration::ZERO, minutes(5)),
            (minutes(4), minutes(5)),
            (minutes(10), minutes(10)),
            (hours(24), hours(24)),
            (hours(25), hours(24)),
            (Duration::MAX, hours(24)),
        ];
        for (retry_after, expected) in cases {
            let jitter = if expected > minutes(5) { 0 } else { MIDDLE };
            check_delay(2, Some(retry_after), jitter, expected);
        }
        check_delay(2, Some(minutes(10)), u32::MAX, minutes(11));
    }

    #[test]
    fn failing_delivery_is_exhausted_after_five_days() {
        let times = run_schedule(MIDDLE);
        assert_eq!(times.len(), 11);
        assert_eq!(*times.last().unwrap(), Duration::from_secs(99 * 3600 + 35 * 60 + 5));
        assert_eq!(next(1, DELIVERY_PERIOD, None, MIDDLE), NextAttempt::Exhausted);
        let last_moment = DELIVERY_PERIOD - Duration::from_secs(5);
        assert_eq!(
            next(1, last_moment, None, MIDDLE),
            NextAttempt::At(START.plus(DELIVERY_PERIOD))
        );
    }

    proptest! {
        #[test]
        fn every_schedule_ends_within_five_days(random: u32) {
            let times = run_schedule(random);
            prop_assert!((10..=12).contains(&times.len()), "{} attempts", times.len());
            prop_assert!(*times.last().unwrap() <= DELIVERY_PERIOD);
            prop_assert!(times.is_sorted());
        }

        #[test]
        fn next_attempt_is_never_earlier_than_retry_after(
            attempts in 1_u32..20, seconds in 0_u64..=86_400, random: u32,
        ) {
            let asked = Duration::from_secs(seconds);
            if let NextAttempt::At(at) = next(attempts, Duration::ZERO, Some(asked), random) {
                prop_assert!(at >= START.plus(asked));
            }
        }
    }
}
