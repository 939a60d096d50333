//! Finds webhooks with due deliveries, and runs a worker for each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use scrip_api::app::App;
use scrip_core::{Error, events::WebhookKey, policy::Directory};

use crate::{
    background::webhooks::{
        delivery_context::DeliveryContext,
        opened_webhook::{EnabledWebhook, has_enabled_webhook},
        webhook_state::WebhookState,
        worker::Worker,
    },
    periodic_tasks::{FailureLog, delayed_interval},
};

const POLL_EVERY: Duration = Duration::from_millis(200);
/// Steps of moving the deliveries of reads in one poll. The other deliveries must not wait for a
/// long backlog of reads.
const READ_STEPS_MAX: usize = 8;

/// The state of all workers. It outlives a panic of its task.
#[derive(Debug)]
pub(super) struct Deliverer {
    context: Arc<DeliveryContext>,
    webhooks: Mutex<HashMap<WebhookKey, Arc<WebhookState>>>,
    checked: Mutex<CheckedDirectory>,
}

/// Whether this directory has an enabled webhook.
#[derive(Debug, Default)]
struct CheckedDirectory {
    directory: Weak<Directory>,
    has_webhook: bool,
}

impl Deliverer {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self {
            context: Arc::new(DeliveryContext::new(app)),
            webhooks: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// Polls until the server stops.
    pub(super) async fn run(self: Arc<Self>) {
        let mut guard = self.context.app.tasks.deliveries.track();
        let mut ticks = delayed_interval(POLL_EVERY);
        let mut failures = FailureLog::warning(
            "finding due deliveries to webhooks failed; retrying",
            "deliveries to webhooks continue",
        );
        loop {
            tokio::select! {
                _ = ticks.tick() => (),
                () = guard.wait_for_stop() => break,
            }
            failures.record(&self.poll().await);
        }
        drop(guard);
        std::future::pending().await
    }

    /// Starts or wakes the workers of all webhooks with due deliveries. Without an enabled webhook
    /// nothing is read. A sealed vault, and one with an outdated policy, delivers nothing.
    async fn poll(self: &Arc<Self>) -> Result<(), Error> {
        if self.context.app.rejection_reason().is_some() {
            return Ok(());
        }
        let Some(directory) = self.context.app.directory.load_full() else { return Ok(()) };
        if !self.has_webhook(&directory) {
            return Ok(());
        }
        let vault = &self.context.app.vault;
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
            if self.context.app.vault.store.move_read_deliveries().await? == 0 {
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
                it.is_running() || EnabledWebhook::find(directory, *key).is_some()
            });
        }
        checked.has_webhook
    }

    fn wake(self: &Arc<Self>, key: WebhookKey) {
        let state = Arc::clone(self.states().entry(key).or_default());
        match state.try_start() {
            None => state.due.notify_one(),
            Some(running) => {
                let worker = Worker::new(Arc::clone(&self.context), key, state);
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
}
