//! Delivers the events of one webhook, as long as some are due.
//!
//! Each attempt is a task of its own, so a slow one does not hold up the others. A worker claims
//! only as many deliveries as it can start at once: a claim never waits until its lease ends.

use std::{sync::Arc, time::Duration};

use scrip_api::{
    app::in_flight::InFlightGuard,
    metrics::{AttemptLabel, DeliveryLabel},
};
use scrip_core::{
    Error, Timestamp,
    events::{
        AttemptOutcome, AttemptResult, ClaimedDelivery, DeliveryChange, NextAttempt, WebhookKey,
    },
    store::deliveries::DeliveryClaim,
};
use scrip_seal::WebhookSigningKey;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use crate::background::webhooks::{
    attempt::{AttemptReport, LEASE},
    attempt_slots::AttemptSlot,
    delivery_context::DeliveryContext,
    disable::{disable_failing, disable_gone},
    opened_webhook::{OpenedWebhook, find_tenant},
    signer::UnsignedDelivery,
    webhook_state::WebhookState,
};

/// A worker without a free slot looks again after this time, even without a notice.
const SLOT_RETRY: Duration = Duration::from_millis(200);
/// The shortest time between two loads of the keys.
const RELOAD_EVERY: Duration = Duration::from_secs(5);
/// The pause of a delivery for which the vault itself was too busy.
const POSTPONED_BY: Duration = Duration::from_secs(1);

pub(super) struct Worker {
    context: Arc<DeliveryContext>,
    key: WebhookKey,
    state: Arc<WebhookState>,
    attempts: JoinSet<FinishedAttempt>,
    results: ResultBuffer,
    /// Whether there may be due deliveries that are not claimed.
    is_due: bool,
    needs_slot: bool,
    /// The last failures may be a reason to disable the webhook.
    suspicion: Option<Suspicion>,
    /// When a row that cannot be opened was last a reason to load the keys again.
    reloaded_at: Option<Instant>,
}

/// Why a webhook may have to be disabled, and the state of the webhook that failed.
struct Suspicion {
    webhook: Arc<OpenedWebhook>,
    is_gone: bool,
}

struct FinishedAttempt {
    delivery: ClaimedDelivery,
    webhook: Arc<OpenedWebhook>,
    /// `None` if the delivery was given back because the server stops.
    report: Option<AttemptReport>,
}

/// The parts that all attempts of one claim share.
struct AttemptParts {
    webhook: Arc<OpenedWebhook>,
    key: Arc<WebhookSigningKey>,
    guard: InFlightGuard,
}

impl Worker {
    pub(super) fn new(
        context: Arc<DeliveryContext>,
        key: WebhookKey,
        state: Arc<WebhookState>,
    ) -> Self {
        Self {
            context,
            key,
            state,
            attempts: JoinSet::new(),
            results: ResultBuffer::default(),
            is_due: true,
            needs_slot: false,
            suspicion: None,
            reloaded_at: None,
        }
    }

    /// Runs until no delivery is due, or until the server stops: then no delivery is claimed, and
    /// attempts in progress can finish.
    pub(super) async fn run(mut self) {
        let mut guard = self.context.app.tasks.deliveries.track();
        loop {
            self.needs_slot = false;
            if self.can_start(&guard) {
                self.start_attempts(&guard).await;
            }
            self.store_due_results().await;
            let is_idle = self.attempts.is_empty() && self.results.is_empty();
            if is_idle && !self.can_start(&guard) {
                return;
            }
            self.wait(&mut guard).await;
        }
    }

    /// Whether another attempt may start. A webhook that may have to be disabled waits for the
    /// decision.
    fn can_start(&self, guard: &InFlightGuard) -> bool {
        self.is_due && self.suspicion.is_none() && !guard.must_stop()
    }

    /// Waits for the next thing to do.
    async fn wait(&mut self, guard: &mut InFlightGuard) {
        let pause_end = self.state.cache().pause_until.filter(|_| self.can_start(guard));
        let slot_retry = self.needs_slot.then(|| Instant::now() + SLOT_RETRY);
        let times = [self.results.store_at(), pause_end, slot_retry];
        let wake_at = times.into_iter().flatten().min();
        let is_stopping = guard.must_stop();
        tokio::select! {
            Some(joined) = self.attempts.join_next() => self.finish(joined),
            () = self.state.due.notified() => self.is_due = true,
            () = self.context.slots.freed.notified(), if self.needs_slot => (),
            () = wait_until(wake_at) => (),
            () = guard.wait_for_stop(), if !is_stopping => (),
        }
        while let Some(joined) = self.attempts.try_join_next() {
            self.finish(joined);
        }
    }

    /// Claims due deliveries and starts their attempts.
    async fn start_attempts(&mut self, guard: &InFlightGuard) {
        let Some(webhook) = self.context.open_webhook(self.key, &self.state) else {
            self.is_due = false;
            return;
        };
        let (pace, pause_until) = {
            let cache = self.state.cache();
            (cache.pace, cache.pause_until)
        };
        if pause_until.is_some_and(|it| Instant::now() < it) {
            return;
        }
        self.state.cache().pause_until = None;
        let free = pace.concurrency.saturating_sub(self.attempts.len());
        // Each claim is a write, so a quick receiver gets groups.
        if free == 0 || (free < pace.concurrency / 2) {
            return;
        }
        let take = || self.context.slots.try_take(self.key.tenant, pace.speed);
        let slots: Vec<_> = std::iter::from_fn(take).take(free).collect();
        if slots.is_empty() {
            self.needs_slot = true;
            return;
        }
        if let Err(error) = self.claim(webhook, slots, guard).await {
            self.is_due = false;
            self.context.log_failure(&error);
        }
    }

    async fn claim(
        &mut self,
        webhook: Arc<OpenedWebhook>,
        slots: Vec<AttemptSlot>,
        guard: &InFlightGuard,
    ) -> Result<(), Error> {
        let app = Arc::clone(&self.context.app);
        let key = app.webhook_signing_key().await?;
        app.egress.webhooks.get()?;
        let now = app.vault.clock.now();
        let claim =
            DeliveryClaim { now, lease_until: now.plus(LEASE), deliveries_max: slots.len() };
        let claimed = app.vault.store.claim_deliveries(self.key, claim).await?;
        self.is_due = claimed.len() >= slots.len();
        let parts = AttemptParts { webhook, key, guard: guard.clone() };
        for (delivery, slot) in claimed.into_iter().zip(slots) {
            self.start_attempt(delivery, slot, &parts).await;
        }
        Ok(())
    }

    async fn start_attempt(
        &mut self,
        delivery: ClaimedDelivery,
        slot: AttemptSlot,
        parts: &AttemptParts,
    ) {
        let mut event = delivery.open(&parts.webhook.webhook.tenant);
        if event.is_err() && self.may_reload() {
            // Another node may have sealed the row with a key that this one has not loaded.
            drop(self.context.app.reload().await);
            let directory = self.context.app.directory.load_full();
            let tenant = directory.as_ref().and_then(|it| find_tenant(it, self.key));
            event = tenant.map_or(event, |it| delivery.open(it));
        }
        let Ok(event) = event else { return self.exhaust_altered(&delivery) };
        let unsigned = UnsignedDelivery {
            webhook: Arc::clone(&parts.webhook),
            key: Arc::clone(&parts.key),
            event_id: delivery.event,
            event,
        };
        let context = Arc::clone(&self.context);
        let (webhook, guard) = (Arc::clone(&parts.webhook), parts.guard.clone());
        self.attempts.spawn(async move {
            let report = context.attempt(unsigned, &webhook, &guard).await;
            drop(slot);
            FinishedAttempt { delivery, webhook, report }
        });
    }

    /// Altered rows must not cost a reload each.
    fn may_reload(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.reloaded_at.is_none_or(|it| now.duration_since(it) >= RELOAD_EVERY);
        if is_due {
            self.reloaded_at = Some(now);
        }
        is_due
    }

    /// A row that was altered is not sent, and does not stop the others.
    fn exhaust_altered(&mut self, delivery: &ClaimedDelivery) {
        tracing::error!(
            tenant = %self.key.tenant,
            webhook = %self.key.webhook,
            event = %delivery.event,
            "a delivery was altered outside of the vault and is not sent; run: scrip doctor"
        );
        self.context.app.metrics.webhooks.deliveries.increment(DeliveryLabel::Altered);
        let result = AttemptResult {
            event: delivery.event,
            attempts: delivery.progress.attempts,
            change: DeliveryChange::Exhaust,
            at: self.context.app.vault.clock.now(),
            status: None,
            error: Some("the stored event was altered".to_owned()),
        };
        self.add_result(result);
    }

    fn finish(&mut self, joined: Result<FinishedAttempt, JoinError>) {
        let Ok(FinishedAttempt { delivery, webhook, report }) = joined else {
            // The lease ends, and the attempt is repeated.
            tracing::error!(
                tenant = %self.key.tenant,
                webhook = %self.key.webhook,
                "an attempt to deliver an event panicked; it is repeated"
            );
            return;
        };
        let now = self.context.app.vault.clock.now();
        let change = match report {
            None => DeliveryChange::PostponeTo(now),
            Some(report) => {
                self.record_report(&report);
                match report.outcome {
                    AttemptOutcome::Delivered => DeliveryChange::Deliver,
                    AttemptOutcome::Postponed => DeliveryChange::PostponeTo(now.plus(POSTPONED_BY)),
                    AttemptOutcome::Gone => self.plan_next(&delivery, now, None),
                    AttemptOutcome::Failed { retry_after } => {
                        self.plan_next(&delivery, now, retry_after)
                    }
                }
            }
        };
        let deliveries = &self.context.app.metrics.webhooks.deliveries;
        match change {
            DeliveryChange::Deliver => deliveries.increment(DeliveryLabel::Delivered),
            DeliveryChange::Exhaust => deliveries.increment(DeliveryLabel::Exhausted),
            DeliveryChange::RetryAt(_) | DeliveryChange::PostponeTo(_) => (),
        }
        let is_gone = report.is_some_and(|it| it.outcome == AttemptOutcome::Gone);
        if is_gone || change == DeliveryChange::Exhaust {
            let was_gone = self.suspicion.as_ref().is_some_and(|it| it.is_gone);
            self.suspicion = Some(Suspicion { webhook, is_gone: is_gone || was_gone });
        }
        self.add_result(AttemptResult {
            event: delivery.event,
            attempts: delivery.progress.attempts,
            change,
            at: now,
            status: report.and_then(|it| it.status),
            error: report.and_then(|it| it.failure).map(|it| it.to_string()),
        });
    }

    fn plan_next(
        &self,
        delivery: &ClaimedDelivery,
        now: Timestamp,
        retry_after: Option<Duration>,
    ) -> DeliveryChange {
        let mut random = [0; 4];
        (self.context.app.vault.fill_random)(&mut random);
        let random = u32::from_le_bytes(random);
        match delivery.progress.next_attempt(now, retry_after, random) {
            NextAttempt::At(at) => DeliveryChange::RetryAt(at),
            NextAttempt::Exhausted => DeliveryChange::Exhaust,
        }
    }

    fn record_report(&self, report: &AttemptReport) {
        let metrics = &self.context.app.metrics.webhooks;
        metrics.attempts.increment(match report.outcome {
            AttemptOutcome::Delivered => AttemptLabel::Delivered,
            AttemptOutcome::Gone => AttemptLabel::Gone,
            AttemptOutcome::Failed { .. } => AttemptLabel::Failed,
            AttemptOutcome::Postponed => AttemptLabel::Postponed,
        });
        let micros = report.elapsed.as_micros();
        metrics.attempt_micros.record(micros.try_into().unwrap_or(u64::MAX));
        let mut cache = self.state.cache();
        cache.pace.update(report.outcome, report.elapsed);
        let pause = cache.pace.pause();
        cache.pause_until = (!pause.is_zero()).then(|| Instant::now() + pause);
    }

    fn add_result(&mut self, result: AttemptResult) {
        self.results.push(result, Instant::now());
    }

    async fn store_due_results(&mut self) {
        let is_last = self.attempts.is_empty();
        let Some(results) = self.results.due_results(Instant::now(), is_last) else { return };
        match self.context.app.vault.store.finish_deliveries(self.key, results).await {
            Ok(_) => {
                self.results.clear();
                self.check_suspicion().await;
            }
            Err(error) => {
                self.context.log_failure(&error.into());
                if self.results.retry_or_give_up(Instant::now()) {
                    self.suspicion = None;
                }
            }
        }
    }

    /// Disables the webhook if its failures are a reason.
    async fn check_suspicion(&mut self) {
        let Some(Suspicion { webhook, is_gone }) = self.suspicion.take() else { return };
        let app = &self.context.app;
        match is_gone {
            true => disable_gone(app, &webhook.webhook).await,
            false => disable_failing(app, &webhook.webhook).await,
        }
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Results are stored together: at this number, or at this age of the first one.
const RESULTS_MAX: usize = 64;
const STORE_AFTER: Duration = Duration::from_millis(50);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct ResultBuffer {
    results: Vec<AttemptResult>,
    /// When the results are stored.
    store_at: Option<Instant>,
    /// When results that cannot be stored are given up.
    give_up_at: Option<Instant>,
    /// Whether storing these results has failed.
    has_failed: bool,
}

impl ResultBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub(super) fn store_at(&self) -> Option<Instant> {
        self.store_at
    }

    pub(super) fn push(&mut self, result: AttemptResult, now: Instant) {
        self.results.push(result);
        self.store_at.get_or_insert(now + STORE_AFTER);
        self.give_up_at.get_or_insert(now + LEASE);
        if self.results.len() >= RESULTS_MAX && !self.has_failed {
            self.store_at = Some(now);
        }
    }

    /// The results, if it is time to store them. `is_last` if no other result follows soon.
    pub(super) fn due_results(&self, now: Instant, is_last: bool) -> Option<Vec<AttemptResult>> {
        let is_time = self.store_at.is_some_and(|it| it <= now);
        let is_due = is_time || (is_last && !self.has_failed);
        (is_due && !self.is_empty()).then(|| self.results.clone())
    }

    /// The results are stored.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Plans another try. Returns whether the results were given up: their leases have ended, so
    /// their attempts are repeated.
    pub(super) fn retry_or_give_up(&mut self, now: Instant) -> bool {
        let is_over = self.give_up_at.is_some_and(|it| it <= now);
        if is_over {
            self.clear();
        } else {
            (self.has_failed, self.store_at) = (true, Some(now + PAUSE_AFTER_FAILURE));
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::{Timestamp, events::DeliveryChange, types::id::EventId};
    use uuid::Uuid;

    use super::*;

    fn result(number: u128) -> AttemptResult {
        AttemptResult {
            event: EventId(Uuid::from_u128(number)),
            attempts: 1,
            change: DeliveryChange::Deliver,
            at: Timestamp { unix_ms: 0 },
            status: Some(200),
            error: None,
        }
    }

    #[tokio::test]
    async fn results_are_stored_by_number_by_age_or_if_no_other_follows() {
        let (mut buffer, now) = (ResultBuffer::default(), Instant::now());
        assert_eq!(buffer.due_results(now, true), None);
        buffer.push(result(1), now);
        assert_eq!(buffer.due_results(now, false), None);
        assert_eq!(buffer.due_results(now, true).unwrap().len(), 1);
        assert_eq!(buffer.due_results(now + STORE_AFTER, false).unwrap().len(), 1);
        (2..65).for_each(|it| buffer.push(result(it), now));
        assert_eq!(buffer.due_results(now, false).unwrap().len(), 64);
    }

    #[tokio::test]
    async fn results_that_cannot_be_stored_are_kept_until_their_leases_end() {
        let (mut buffer, now) = (ResultBuffer::default(), Instant::now());
        buffer.push(result(1), now);
        assert!(!buffer.retry_or_give_up(now));
        assert_eq!(buffer.due_results(now, true), None, "there is a pause");
        assert!(buffer.due_results(now + PAUSE_AFTER_FAILURE, false).is_some());
        assert!(buffer.retry_or_give_up(now + LEASE));
        assert!(buffer.is_empty());
    }
}
