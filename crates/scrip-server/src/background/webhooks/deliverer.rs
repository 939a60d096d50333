//! Finds webhooks with due deliveries, and runs a worker for each.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use scrip_api::app::App;
use scrip_core::{error::Error, event::WebhookKey, policy::Directory};
use tokio::{sync::Notify, time::Instant};

use crate::background::{
    delayed_interval,
    failure_series::{FailureSeries, SeriesChange},
    webhooks::{
        attempt_slots::AttemptSlots,
        opened_webhook::{EnabledWebhook, OpenedWebhook, has_enabled_webhook},
        pace::Pace,
        signer::Signer,
        worker::Worker,
    },
};

const POLL_EVERY: Duration = Duration::from_millis(200);
/// Steps of moving the deliveries of reads in one poll. The other deliveries must not wait for a
/// long backlog of reads.
const READ_STEPS_MAX: usize = 8;

const LOG_FAILURES_EVERY: Duration = Duration::from_secs(60);

/// The state of all workers. It outlives a panic of its task.
#[derive(Debug)]
pub(super) struct Deliverer {
    pub(super) app: Arc<App>,
    pub(super) slots: Arc<AttemptSlots>,
    pub(super) signer: Signer,
    /// When a failure that concerns all webhooks was last logged.
    failure_logged_at: Mutex<Option<Instant>>,
    webhooks: Mutex<HashMap<WebhookKey, Arc<WebhookState>>>,
    checked: Mutex<CheckedDirectory>,
}

/// Whether this directory has an enabled webhook.
#[derive(Debug, Default)]
struct CheckedDirectory {
    directory: Weak<Directory>,
    has_webhook: bool,
}

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

    fn try_start(self: &Arc<Self>) -> Option<RunningWorker> {
        let was_running = self.is_running.swap(true, Ordering::AcqRel);
        (!was_running).then(|| RunningWorker(Arc::clone(self)))
    }
}

impl Deliverer {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self {
            app,
            slots: Arc::default(),
            signer: Signer::default(),
            failure_logged_at: Mutex::default(),
            webhooks: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// Polls until the server stops.
    pub(super) async fn run(self: Arc<Self>) {
        let mut guard = self.app.deliveries_in_flight.track();
        let mut ticks = delayed_interval(POLL_EVERY);
        let mut failures = FailureSeries::default();
        loop {
            tokio::select! {
                _ = ticks.tick() => (),
                () = guard.wait_for_stop() => break,
            }
            match failures.record(self.poll().await) {
                None => (),
                Some(SeriesChange::Begin(error)) => tracing::warn!(
                    cause = error.cause_text(),
                    "finding due deliveries to webhooks failed; retrying"
                ),
                Some(SeriesChange::End) => tracing::info!("deliveries to webhooks continue"),
            }
        }
        drop(guard);
        std::future::pending().await
    }

    /// Starts or wakes the workers of all webhooks with due deliveries. Without an enabled webhook
    /// nothing is read. A sealed vault, and one with an outdated policy, delivers nothing.
    async fn poll(self: &Arc<Self>) -> Result<(), Error> {
        if self.app.rejection_reason().is_some() {
            return Ok(());
        }
        let Some(directory) = self.app.directory.load_full() else { return Ok(()) };
        if !self.has_webhook(&directory) {
            return Ok(());
        }
        let vault = &self.app.vault;
        let moved = self.move_read_deliveries().await;
        for key in vault.store.list_due_webhooks(vault.clock.now()).await? {
            if EnabledWebhook::find(&directory, key).is_some() {
                self.wake(key);
            }
        }
        // A failure of the read log must not stop the other deliveries.
        moved
    }

    async fn move_read_deliveries(&self) -> Result<(), Error> {
        for _ in 0..READ_STEPS_MAX {
            if self.app.vault.store.move_read_deliveries().await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Looks at each directory once. A new one also ends the states of deleted webhooks.
    fn has_webhook(&self, directory: &Arc<Directory>) -> bool {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(checked.directory.as_ptr(), Arc::as_ptr(directory)) {
            let has_webhook = has_enabled_webhook(directory);
            *checked = CheckedDirectory { directory: Arc::downgrade(directory), has_webhook };
            self.states().retain(|key, it| {
                it.is_running.load(Ordering::Acquire)
                    || EnabledWebhook::find(directory, *key).is_some()
            });
        }
        checked.has_webhook
    }

    fn wake(self: &Arc<Self>, key: WebhookKey) {
        let state = Arc::clone(self.states().entry(key).or_default());
        match state.try_start() {
            None => state.due.notify_one(),
            Some(running) => {
                let worker = Worker::new(Arc::clone(self), key, state);
                drop(tokio::spawn(async move {
                    worker.run().await;
                    drop(running);
                }));
            }
        }
    }

    fn states(&self) -> MutexGuard<'_, HashMap<WebhookKey, Arc<WebhookState>>> {
        self.webhooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current state of a webhook; `None` if it gets no deliveries now.
    pub(super) fn open_webhook(
        &self,
        key: WebhookKey,
        state: &WebhookState,
    ) -> Option<Arc<OpenedWebhook>> {
        if self.app.rejection_reason().is_some() {
            return None;
        }
        let directory = self.app.directory.load_full()?;
        let webhook = EnabledWebhook::find(&directory, key)?;
        let mut cache = state.cache();
        if let Some(opened) = cache.opened.as_ref().filter(|it| it.is_state_of(&webhook)) {
            return Some(Arc::clone(opened));
        }
        match OpenedWebhook::open(webhook) {
            Ok(opened) => {
                let opened = Arc::new(opened);
                // A changed webhook may have another receiver.
                *cache =
                    WebhookCache { opened: Some(Arc::clone(&opened)), ..WebhookCache::default() };
                Some(opened)
            }
            Err(error) => {
                tracing::error!(
                    tenant = %key.tenant,
                    webhook = %key.webhook,
                    cause = error.cause_text(),
                    "a webhook cannot be opened and gets no deliveries; run: scrip doctor"
                );
                None
            }
        }
    }

    /// Logs a failure of the store, the key or the client, which all webhooks share, at most once a
    /// minute.
    pub(super) fn log_failure(&self, error: &Error) {
        let mut logged_at = self.failure_logged_at.lock().unwrap_or_else(PoisonError::into_inner);
        if logged_at.is_some_and(|it| it.elapsed() < LOG_FAILURES_EVERY) {
            return;
        }
        *logged_at = Some(Instant::now());
        tracing::warn!(cause = error.cause_text(), "deliveries to webhooks are delayed; retrying");
    }
}
