//! The state of one webhook between its workers.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::{sync::Notify, time::Instant};

use crate::background::webhooks::{opened_webhook::OpenedWebhook, pace::Pace};

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
