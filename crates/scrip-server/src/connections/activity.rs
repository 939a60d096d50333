//! The activity of a connection, which decides whether the connection is idle.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    clock::ticks,
    connections::{counts::CloseReason, limits::STALLED_AFTER},
};

/// Activity of a connection, shared by its stream, its requests and the connection table.
#[derive(Debug)]
pub(crate) struct Activity {
    requests_started: AtomicU64,
    requests_finished: AtomicU64,
    /// Requests that wait for bytes of their bodies.
    waiting_for_body: AtomicU64,
    /// Time when the connection was accepted, a request last started or ended, or a body last made
    /// progress, in microseconds.
    changed_at: AtomicU64,
    /// Time since when the client reads nothing of a response, in microseconds; zero while it
    /// reads.
    write_blocked_since: AtomicU64,
    /// Time without progress, in microseconds, after which a connection that waits for its client
    /// counts as idle.
    stalled_after: u64,
    close_reason: OnceLock<CloseReason>,
}

/// Microseconds of the monotonic clock.
pub(crate) fn now_micros() -> u64 {
    to_micros(ticks())
}

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self::with_stall_time(STALLED_AFTER)
    }

    /// A connection that waits for its client counts as idle after `stall_time` without progress.
    pub(crate) fn with_stall_time(stall_time: Duration) -> Self {
        Self {
            requests_started: AtomicU64::new(0),
            requests_finished: AtomicU64::new(0),
            waiting_for_body: AtomicU64::new(0),
            changed_at: AtomicU64::new(now_micros()),
            write_blocked_since: AtomicU64::new(0),
            stalled_after: to_micros(stall_time),
            close_reason: OnceLock::new(),
        }
    }

    /// Completes after the connection had no request for `idle_time`. Hyper has such a timeout for
    /// HTTP/1.1 only.
    pub(crate) async fn wait_until_idle(self: Arc<Self>, idle_time: Duration) {
        loop {
            let started_before = self.requests_started.load(Ordering::Relaxed);
            sleep(idle_time).await;
            let counts = [&self.requests_started, &self.requests_finished]
                .map(|it| it.load(Ordering::Relaxed));
            if counts == [started_before, started_before] {
                return;
            }
        }
    }

    pub(crate) fn start_request(&self) {
        self.requests_started.fetch_add(1, Ordering::Relaxed);
        self.record_progress();
    }

    pub(crate) fn finish_request(&self) {
        self.record_progress();
        self.requests_finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_progress(&self) {
        self.changed_at.store(now_micros(), Ordering::Relaxed);
    }

    /// Records that a request waits for bytes of its body, until [`Self::stop_waiting`].
    pub(crate) fn start_waiting(&self) {
        self.waiting_for_body.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stop_waiting(&self) {
        self.waiting_for_body.fetch_sub(1, Ordering::Relaxed);
    }

    /// Time since when the connection is idle. `None` while the server works on a request, or while
    /// the client made progress recently.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let counts = [&self.requests_started, &self.requests_finished, &self.waiting_for_body]
            .map(|it| it.load(Ordering::Relaxed));
        let [started, finished, waiting] = counts;
        let in_progress = started.saturating_sub(finished);
        if in_progress > waiting {
            return None;
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        let blocked_since = self.write_blocked_since.load(Ordering::Relaxed);
        if in_progress == 0 && blocked_since == 0 {
            return Some(changed_at);
        }
        let since = if in_progress == 0 { blocked_since } else { changed_at.max(blocked_since) };
        Some(since).filter(|it| now_micros().saturating_sub(*it) >= self.stalled_after)
    }

    /// Records that the client reads nothing of a response, until [`Self::stop_write_blocked`].
    pub(crate) fn start_write_blocked(&self) {
        let since = &self.write_blocked_since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(now_micros().max(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn stop_write_blocked(&self) {
        self.write_blocked_since.store(0, Ordering::Relaxed);
    }

    /// Records why the server closes the connection. The first reason counts.
    pub(crate) fn set_close_reason(&self, reason: CloseReason) {
        self.close_reason.get_or_init(|| reason);
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason.get().copied()
    }
}
