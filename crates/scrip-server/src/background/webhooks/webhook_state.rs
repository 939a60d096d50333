//! The state of one webhook between its workers.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use scrip_core::events::AttemptOutcome;
use tokio::{sync::Notify, time::Instant};

use crate::background::webhooks::{attempt_slots::ReceiverSpeed, opened_webhook::OpenedWebhook};

/// The state of one webhook between its workers.
#[derive(Debug, Default)]
pub(super) struct WebhookState {
    is_running: AtomicBool,
    /// There are due deliveries again.
    pub(super) due: Notify,
    cache: Mutex<WebhookCache>,
}

#[derive(Debug, Default)]
pub(super) struct WebhookCache {
    pub(super) pace: Pace,
    /// No attempt before this time.
    pub(super) pause_until: Option<Instant>,
    pub(super) opened: Option<Arc<OpenedWebhook>>,
}

/// Marks the worker of a webhook as running.
#[derive(Debug)]
pub(super) struct RunningWorker(Arc<WebhookState>);

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}

impl WebhookState {
    pub(super) fn cache(&self) -> MutexGuard<'_, WebhookCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    /// Returns `None` if the worker of this webhook already runs.
    pub(super) fn try_start(self: &Arc<Self>) -> Option<RunningWorker> {
        let was_running = self.is_running.swap(true, Ordering::AcqRel);
        (!was_running).then(|| RunningWorker(Arc::clone(self)))
    }
}

const CONCURRENCY_START: usize = 2;
const CONCURRENCY_MAX: usize = 32;
/// A receiver that needs longer for its answer is slow.
const SLOW_AFTER: Duration = Duration::from_secs(2);
/// The pause after a failure. It doubles with each further failure, so that a receiver that is down
/// does not get its whole backlog at once, and costs no signatures.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Attempts at the same time.
    pub(super) concurrency: usize,
    pub(super) speed: ReceiverSpeed,
    /// Failures since the last success.
    failures: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { concurrency: CONCURRENCY_START, speed: ReceiverSpeed::Normal, failures: 0 }
    }
}

impl Pace {
    pub(super) fn update(&mut self, outcome: AttemptOutcome, elapsed: Duration) {
        match outcome {
            AttemptOutcome::Delivered if elapsed <= SLOW_AFTER => {
                let doubled = self.concurrency.saturating_mul(2).min(CONCURRENCY_MAX);
                *self = Self { concurrency: doubled, speed: ReceiverSpeed::Normal, failures: 0 };
            }
            // It takes events, but more at a time would only hold more places.
            AttemptOutcome::Delivered => {
                (self.speed, self.failures) = (ReceiverSpeed::Slow, 0);
            }
            AttemptOutcome::Failed { .. } | AttemptOutcome::Gone => {
                let failures = self.failures.saturating_add(1);
                *self = Self { concurrency: 1, speed: ReceiverSpeed::Slow, failures };
            }
            AttemptOutcome::Postponed => (),
        }
    }

    /// The pause before the next attempt.
    pub(super) fn pause(&self) -> Duration {
        match self.failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(exponent) => {
                let factor = 2_u32.saturating_pow(exponent);
                FAILURE_PAUSE.saturating_mul(factor).min(FAILURE_PAUSE_MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: AttemptOutcome = AttemptOutcome::Failed { retry_after: None };
    const QUICK: Duration = Duration::from_millis(20);

    fn pace_after(outcomes: &[(AttemptOutcome, Duration)]) -> Pace {
        let mut pace = Pace::default();
        outcomes.iter().for_each(|(outcome, elapsed)| pace.update(*outcome, *elapsed));
        pace
    }

    #[test]
    fn concurrency_doubles_with_quick_successes_and_falls_to_one_after_a_failure() {
        let success = (AttemptOutcome::Delivered, QUICK);
        for (successes, expected) in [(0, 2), (1, 4), (3, 16), (4, 32), (9, 32)] {
            let pace = pace_after(&vec![success; successes]);
            assert_eq!((pace.concurrency, pace.pause()), (expected, Duration::ZERO));
        }
        let failed = pace_after(&[success, success, (FAILED, QUICK)]);
        assert_eq!((failed.concurrency, failed.speed), (1, ReceiverSpeed::Slow));
        let recovered = pace_after(&[(FAILED, QUICK), success]);
        assert_eq!((recovered.concurrency, recovered.speed), (2, ReceiverSpeed::Normal));
    }

    #[test]
    fn slow_success_does_not_raise_the_concurrency() {
        let pace = pace_after(&[(AttemptOutcome::Delivered, Duration::from_secs(14))]);
        assert_eq!((pace.concurrency, pace.speed), (2, ReceiverSpeed::Slow));
        assert_eq!(pace.pause(), Duration::ZERO);
    }

    #[test]
    fn pause_grows_with_each_failure_up_to_two_seconds() {
        for (failures, expected) in [(1, 50), (2, 100), (6, 1600), (7, 2000), (100, 2000)] {
            let pace = pace_after(&vec![(FAILED, QUICK); failures]);
            assert_eq!(pace.pause(), Duration::from_millis(expected), "{failures}");
        }
    }

    #[test]
    fn postponed_attempt_changes_nothing() {
        let pace = pace_after(&[(AttemptOutcome::Postponed, Duration::from_secs(15))]);
        assert_eq!((pace.concurrency, pace.speed), (2, ReceiverSpeed::Normal));
    }
}
