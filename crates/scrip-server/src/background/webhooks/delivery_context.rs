//! What the deliveries to all webhooks share: the attempt slots, the signer and the log of failures.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use scrip_api::app::{App, in_flight::InFlightGuard};
use scrip_core::{
    Error,
    events::{AttemptOutcome, WebhookKey},
};
use tokio::time::Instant;

use crate::background::webhooks::{
    attempt::{ATTEMPT_TIMEOUT, AttemptReport, WebhookReceiver},
    attempt_slots::AttemptSlots,
    opened_webhook::{EnabledWebhook, OpenedWebhook},
    signer::{Signer, UnsignedDelivery},
    webhook_state::{WebhookCache, WebhookState},
};

const LOG_FAILURES_EVERY: Duration = Duration::from_secs(60);

/// Shared by all workers.
#[derive(Debug)]
pub(super) struct DeliveryContext {
    pub(super) app: Arc<App>,
    pub(super) slots: Arc<AttemptSlots>,
    signer: Signer,
    /// When a failure that concerns all webhooks was last logged.
    failure_logged_at: Mutex<Option<Instant>>,
}

impl DeliveryContext {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self {
            app,
            slots: Arc::default(),
            signer: Signer::default(),
            failure_logged_at: Mutex::default(),
        }
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

    /// Signs and sends. `None` if the server stops before anything was sent.
    pub(super) async fn attempt(
        &self,
        unsigned: UnsignedDelivery,
        webhook: &OpenedWebhook,
        guard: &InFlightGuard,
    ) -> Option<AttemptReport> {
        if guard.must_stop() {
            return None;
        }
        let postponed = AttemptReport {
            outcome: AttemptOutcome::Postponed,
            status: None,
            failure: None,
            elapsed: Duration::ZERO,
        };
        let client = match self.app.egress.webhooks.get() {
            Ok(client) => client,
            Err(error) => {
                self.log_failure(&error);
                return Some(postponed);
            }
        };
        let signed = self.signer.sign(unsigned, || self.app.vault.clock.now()).await;
        let (request, now) = match signed {
            Ok(signed) => signed,
            Err(error) => {
                self.log_failure(&error);
                return Some(postponed);
            }
        };
        if guard.must_stop() {
            return None;
        }
        let receiver = WebhookReceiver {
            client,
            destination: &webhook.destination,
            scope: webhook.scope(),
            timeout: ATTEMPT_TIMEOUT,
        };
        Some(receiver.attempt(request, now).await)
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
