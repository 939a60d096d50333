//! Ends and deletes old deliveries, and those of deleted webhooks.

use std::{sync::Arc, time::Duration};

use scrip_api::{
    app::App,
    metrics::{DeliveryLabel, SweepTarget},
};
use scrip_core::{
    Error, Timestamp,
    audit::AuditRecord,
    events::{WebhookKey, delivery_schedule::DELIVERY_PERIOD},
    policy::Directory,
    store::deliveries::{DeliveryBounds, TrimmedDeliveries},
    types::Operation,
};
use tokio::time::sleep;

use crate::{
    background::webhooks::{
        disable::disable_failing,
        opened_webhook::{EnabledWebhook, find_tenant},
    },
    periodic_tasks::{PAUSE_BETWEEN_STEPS, delayed_interval},
};

const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// The tenant can look at finished deliveries and replay them for this time.
const FINISHED_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const DELIVERIES_MAX: usize = 100_000;
/// Rows of one transaction.
const STEP: usize = 256;

pub(super) async fn sweep_deliveries(app: Arc<App>) {
    app.wait_until_unsealed().await;
    let mut ticks = delayed_interval(SWEEP_EVERY);
    let target = SweepTarget::WebhookDeliveries;
    loop {
        ticks.tick().await;
        // The rows of an outdated policy must not decide which webhooks exist.
        let directory = app.directory.load_full().filter(|_| app.rejection_reason().is_none());
        let Some(directory) = directory else { continue };
        match sweep(&app, &directory).await {
            Ok(()) => {
                let now_ms = u64::try_from(app.vault.clock.now().unix_ms).unwrap_or_default();
                app.metrics.sweep_finished.set(target, now_ms);
            }
            Err(error) => {
                app.metrics.sweep_failures.increment(target);
                tracing::warn!(
                    cause = error.cause_text(),
                    "deleting old deliveries failed; retrying at the next sweep"
                );
            }
        }
    }
}

async fn sweep(app: &App, directory: &Directory) -> Result<(), Error> {
    let store = &app.vault.store;
    // The deliverer moves them only while there is an enabled webhook.
    while store.move_read_deliveries().await? > 0 {
        sleep(PAUSE_BETWEEN_STEPS).await;
    }
    // A node with a clock that is ahead must not delete deliveries that other nodes still attempt.
    let now = store.cap_at_shared_clock(app.vault.clock.earliest()).await?;
    for key in store.list_webhooks_with_deliveries().await? {
        let tenant = find_tenant(directory, key);
        if tenant.is_none_or(|it| !it.webhooks.contains_key(&key.webhook)) {
            delete_orphans(app, key).await?;
        }
        trim(app, directory, key, now).await?;
    }
    let (pending, oldest) = store.count_pending_deliveries().await?;
    let age_ms = oldest.map_or(0, |it| now.unix_ms.saturating_sub(it.unix_ms));
    let metrics = &app.metrics.webhooks;
    metrics.pending.set(pending);
    metrics.oldest_pending_seconds.set(u64::try_from(age_ms / 1000).unwrap_or_default());
    Ok(())
}

async fn delete_orphans(app: &App, key: WebhookKey) -> Result<(), Error> {
    loop {
        let deleted = app.vault.store.delete_orphan_deliveries(key).await?;
        if deleted == 0 {
            return Ok(());
        }
        count_deleted(app, deleted);
        sleep(PAUSE_BETWEEN_STEPS).await;
    }
}

/// Applies the bounds of stored deliveries, and records the events that were lost.
async fn trim(
    app: &App,
    directory: &Directory,
    key: WebhookKey,
    now: Timestamp,
) -> Result<(), Error> {
    let bounds = DeliveryBounds {
        oldest_pending: now.minus(DELIVERY_PERIOD),
        oldest_finished: now.minus(FINISHED_RETENTION),
        deliveries_max: DELIVERIES_MAX,
        step: STEP,
    };
    let (mut exhausted, mut dropped) = (0_usize, 0_usize);
    loop {
        let at = app.vault.clock.now();
        let audit =
            AuditRecord::for_vault(Operation::DropWebhookDeliveries, directory.audit_key(), at);
        let trimmed = app.vault.store.trim_deliveries(key, bounds, audit).await?;
        exhausted = exhausted.saturating_add(trimmed.exhausted);
        dropped = dropped.saturating_add(trimmed.dropped);
        count_deleted(app, trimmed.dropped.saturating_add(trimmed.deleted));
        if trimmed == TrimmedDeliveries::default() {
            break;
        }
        sleep(PAUSE_BETWEEN_STEPS).await;
    }
    let deliveries = &app.metrics.webhooks.deliveries;
    deliveries.add(DeliveryLabel::Exhausted, exhausted.try_into().unwrap_or(u64::MAX));
    deliveries.add(DeliveryLabel::Dropped, dropped.try_into().unwrap_or(u64::MAX));
    if exhausted > 0 || dropped > 0 {
        tracing::warn!(
            tenant = %key.tenant,
            webhook = %key.webhook,
            exhausted,
            dropped,
            "events were not delivered: older than 5 days, or more than 100000 for one webhook; \
             its receiver is too slow, fails, or the webhook is disabled"
        );
    }
    if exhausted > 0
        && let Some(webhook) = EnabledWebhook::find(directory, key)
    {
        disable_failing(app, &webhook).await;
    }
    Ok(())
}

fn count_deleted(app: &App, deleted: usize) {
    let deleted = deleted.try_into().unwrap_or(u64::MAX);
    app.metrics.swept.add(SweepTarget::WebhookDeliveries, deleted);
}
