//! Rotate Webhook Secret: a new secret. The previous one stays valid for a day.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::webhooks::update_webhook::{WebhookChange, rewrite_webhook},
    policy::{PolicyPermit, webhook::WebhookDetails},
    types::{Operation, id::WebhookId},
};

/// Errors: there is no such webhook.
pub async fn rotate_webhook_secret(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
    recorder: Option<ResponseRecorder<WebhookDetails>>,
) -> Result<WebhookDetails, Error> {
    let change = WebhookChange { permit, operation: Operation::RotateWebhookSecret, id };
    let (fill_random, now) = (vault.fill_random, vault.clock.now());
    rewrite_webhook(vault, change, recorder, move |details| {
        details.secrets.rotate(fill_random, now);
    })
    .await
}
