//! Disables webhooks that do not want or do not take events.

use std::time::Duration;

use scrip_api::{app::App, metrics::DisableReason};
use scrip_core::{
    events::{WebhookKey, delivery_schedule::DELIVERY_PERIOD},
    operations::webhooks::disable_webhook::disable_webhook,
};

use crate::background::webhooks::opened_webhook::EnabledWebhook;

/// A webhook that was just created, changed or enabled again gets this much time.
const GRACE_AFTER_CHANGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The receiver answered 410.
pub(super) async fn disable_gone(app: &App, webhook: &EnabledWebhook) {
    disable(app, webhook, DisableReason::Gone).await;
}

/// A delivery is exhausted. If no other one succeeded for five days, the webhook is disabled.
pub(super) async fn disable_failing(app: &App, webhook: &EnabledWebhook) {
    let now = app.vault.clock.now();
    let record = &webhook.record;
    let changed_at = record.modified.map_or(record.created.at, |it| it.at);
    if changed_at > now.minus(GRACE_AFTER_CHANGE) {
        return;
    }
    let key = WebhookKey { tenant: record.tenant, webhook: record.id };
    match app.vault.store.has_delivered_since(key, now.minus(DELIVERY_PERIOD)).await {
        Ok(true) => (),
        Ok(false) => disable(app, webhook, DisableReason::Exhausted).await,
        // The next exhausted delivery asks again.
        Err(error) => tracing::warn!(
            cause = %error,
            tenant = %key.tenant,
            webhook = %key.webhook,
            "checking a failing webhook failed"
        ),
    }
}

async fn disable(app: &App, webhook: &EnabledWebhook, reason: DisableReason) {
    let (tenant, id) = (webhook.tenant.id, webhook.record.id);
    match disable_webhook(&app.vault, &webhook.tenant, &webhook.record).await {
        Ok(true) => {
            app.metrics.webhooks.disabled.increment(reason);
            match reason {
                DisableReason::Gone => tracing::warn!(
                    %tenant,
                    webhook = %id,
                    "webhook disabled: its receiver answered 410 (Gone); the tenant can enable it \
                     with PUT /webhooks/{id} and status enabled"
                ),
                DisableReason::Exhausted => tracing::warn!(
                    %tenant,
                    webhook = %id,
                    "webhook disabled: no delivery succeeded for 5 days; when its receiver works, \
                     the tenant can enable it with PUT /webhooks/{id} and status enabled, and \
                     repeat events with POST /webhooks/{id}/replay"
                ),
            }
        }
        // The tenant has changed or deleted it.
        Ok(false) => (),
        Err(error) => tracing::warn!(
            cause = error.cause_text(),
            %tenant,
            webhook = %id,
            "disabling a webhook failed; retrying after its next failure"
        ),
    }
    drop(app.reload().await);
}
