//! Parts of tasks that run periodically until the process exits: intervals, restarts after a panic, and
//! the log of failures.

use std::{future::Future, panic::AssertUnwindSafe, pin::Pin, time::Duration};

use futures_util::FutureExt;
use scrip_core::{Error, types::StoreError};
use tokio::{
    task::JoinHandle,
    time::{Interval, MissedTickBehavior, interval, sleep},
};

/// Pause between the steps of a sweep, for the write queue and other processes.
pub(crate) const PAUSE_BETWEEN_STEPS: Duration = Duration::from_millis(5);
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// The future of a background task, which runs as long as the runtime.
pub type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns a task and restarts it after a panic.
pub fn restart_after_panic<F: Future<Output = ()> + Send + 'static>(
    task: &'static str,
    run: impl Fn() -> F + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            match AssertUnwindSafe(run()).catch_unwind().await {
                Ok(()) => return,
                Err(_) => tracing::error!(task, "background task panicked; restarting"),
            }
            sleep(PAUSE_AFTER_PANIC).await;
        }
    })
}

/// An interval that ticks immediately and does not make up for missed ticks.
pub(crate) fn delayed_interval(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The cause of a failure in a log line.
pub(crate) trait LogCause {
    fn log_cause(&self) -> String;
}

impl LogCause for Error {
    fn log_cause(&self) -> String {
        self.cause_text()
    }
}

impl LogCause for StoreError {
    fn log_cause(&self) -> String {
        self.to_string()
    }
}

impl LogCause for anyhow::Error {
    fn log_cause(&self) -> String {
        format!("{self:#}")
    }
}

/// The log lines about the failures of a task: one for the first failure after a success or after the
/// start, and one for the first success after it.
#[derive(Debug)]
pub(crate) struct FailureLog {
    begin: &'static str,
    end: &'static str,
    is_warning: bool,
    is_failing: bool,
}

impl FailureLog {
    pub(crate) const fn warning(begin: &'static str, end: &'static str) -> Self {
        Self { begin, end, is_warning: true, is_failing: false }
    }

    pub(crate) const fn error(begin: &'static str, end: &'static str) -> Self {
        Self { begin, end, is_warning: false, is_failing: false }
    }

    pub(crate) const fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Logs the result of a step, unless it is of the same kind as the one before.
    pub(crate) fn record<T>(&mut self, result: &Result<T, impl LogCause>) {
        let Self { begin, end, is_warning, is_failing } = self;
        let was_failing = std::mem::replace(is_failing, result.is_err());
        match result {
            Ok(_) if was_failing => tracing::info!("{end}"),
            Err(error) if !was_failing => {
                let cause = error.log_cause();
                match is_warning {
                    true => tracing::warn!(cause, "{begin}"),
                    false => tracing::error!(cause, "{begin}"),
                }
            }
            Ok(_) | Err(_) => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{Event, Subscriber, subscriber::with_default};
    use tracing_subscriber::{Layer, layer::Context, prelude::*, registry};

    use super::*;

    /// The levels of the logged events.
    #[derive(Clone, Default)]
    struct LoggedLevels(Arc<Mutex<Vec<tracing::Level>>>);

    impl<S: Subscriber> Layer<S> for LoggedLevels {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }

    #[test]
    fn failure_log_has_a_line_for_the_first_failure_and_one_for_the_first_success_after_it() {
        let levels = LoggedLevels::default();
        with_default(registry().with(levels.clone()), || {
            let mut log = FailureLog::warning("saving failed", "saving works again");
            for is_success in [true, false, false, true, true, false, true] {
                log.record(&is_success.then_some(()).ok_or(StoreError::Busy));
            }
            FailureLog::error("saving failed", "").record(&Err::<(), _>(StoreError::Busy));
        });
        use tracing::Level;
        let expected = [Level::WARN, Level::INFO, Level::WARN, Level::INFO, Level::ERROR];
        assert_eq!(*levels.0.lock().unwrap(), expected);
    }
}
