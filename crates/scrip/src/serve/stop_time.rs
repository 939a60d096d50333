//! The time of the stop signal.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The time of the stop signal, on the monotonic clock. Its lock orders the log lines of the start
/// and of the stop: a server that stops during its start must not log afterwards that it listens.
#[derive(Debug, Default)]
pub(crate) struct StopTime(Mutex<Option<Duration>>);

impl StopTime {
    /// Stores the time of the first signal, and logs it.
    pub(crate) fn record(&self, now: Duration, log: impl FnOnce()) {
        let mut time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        time.get_or_insert(now);
        log();
    }

    /// Calls `announce` if there was no stop signal yet.
    pub(crate) fn announce_unless_stopped(&self, announce: impl FnOnce()) {
        let time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if time.is_none() {
            announce();
        }
    }

    /// Returns the time since the signal; zero without a signal.
    pub(crate) fn elapsed(&self, now: Duration) -> Duration {
        let time = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        time.map_or(Duration::ZERO, |it| now.saturating_sub(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_after_the_stop_signal_is_dropped() {
        let (stop_time, mut announcements) = (StopTime::default(), 0);
        stop_time.announce_unless_stopped(|| announcements += 1);
        stop_time.record(Duration::from_secs(2), || ());
        stop_time.record(Duration::from_secs(3), || ());
        stop_time.announce_unless_stopped(|| announcements += 1);
        assert_eq!(announcements, 1);
        assert_eq!(stop_time.elapsed(Duration::from_secs(5)), Duration::from_secs(3));
    }
}
