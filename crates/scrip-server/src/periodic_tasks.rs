//! Parts of tasks that run periodically until the process exits: intervals, restarts after a panic, and
//! the log of failures.

use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

/// Pause between the steps of a sweep, for the write queue and other processes.
pub(crate) const PAUSE_BETWEEN_STEPS: Duration = Duration::from_millis(5);
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Spawns a task and restarts it after a panic.
pub(crate) fn restart_after_panic<F: Future<Output = ()> + Send + 'static>(
    task: &'static str,
    run: impl Fn() -> F + Send + 'static,
) {
    tokio::spawn(async move {
        loop {
            drop(AssertUnwindSafe(run()).catch_unwind().await);
            tracing::error!(task, "background task panicked; restarting");
            sleep(PAUSE_AFTER_PANIC).await;
        }
    });
}

/// An interval that ticks immediately and does not make up for missed ticks.
pub(crate) fn delayed_interval(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Consecutive failures of one task.
#[derive(Debug, Default)]
pub(crate) struct FailureSeries {
    is_failing: bool,
}

/// A change that is worth a log line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SeriesChange<E> {
    /// The first failure after a success or after the start.
    Begin(E),
    /// The first success after a failure.
    End,
}

impl FailureSeries {
    /// Records the result of one attempt. `None` if the result is of the same kind as before.
    pub(crate) fn record<T, E>(&mut self, result: Result<T, E>) -> Option<SeriesChange<E>> {
        let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
        match result {
            Ok(_) => was_failing.then_some(SeriesChange::End),
            Err(error) => (!was_failing).then_some(SeriesChange::Begin(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_failure_and_the_first_success_after_it_are_changes() {
        let mut series = FailureSeries::default();
        let steps = [
            (Ok(()), None),
            (Err(1), Some(SeriesChange::Begin(1))),
            (Err(2), None),
            (Err(3), None),
            (Ok(()), Some(SeriesChange::End)),
            (Ok(()), None),
            (Err(4), Some(SeriesChange::Begin(4))),
            (Ok(()), Some(SeriesChange::End)),
        ];
        for (result, expected) in steps {
            assert_eq!(series.record(result), expected);
        }
    }
}
