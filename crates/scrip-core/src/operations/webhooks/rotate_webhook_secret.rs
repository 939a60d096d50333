//! Rotate Webhook Secret: a new secret. The previous one stays valid for a day.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::webhooks::update_webhook::rewrite_webhook,
    policy::{PolicyPermit, webhook::WebhookDetails},
    policy_change::RowChange,
    types::{Operation, id::WebhookId},
};

/// Errors: there is no such webhook.
pub async fn rotate_webhook_secret(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
    recorder: Option<ResponseRecorder<WebhookDetails>>,
) -> Result<WebhookDetails, Error> {
    let change = RowChange { permit, operation: Operation::RotateWebhookSecret, id };
    let (fill_random, now) = (vault.fill_random, vault.clock.now());
    rewrite_webhook(vault, change, recorder, move |details| {
        details.secrets.rotate(fill_random, now);
    })
    .await
}
