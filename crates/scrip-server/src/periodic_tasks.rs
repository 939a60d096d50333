//! Parts of tasks that run periodically until the process exits: intervals, restarts after a panic, and
//! the log of failures.

pub(crate) mod failure_series;

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
