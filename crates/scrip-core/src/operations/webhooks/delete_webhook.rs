//! Delete Webhook. No event is stored for it from then on.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    policy_change::remove_row,
    types::{Operation, id::WebhookId},
};

/// Errors: there is no such webhook.
pub async fn delete_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
) -> Result<(), Error> {
    remove_row(vault, permit, Operation::DeleteWebhook, id, move |records| {
        records.webhooks.iter().any(|it| it.record.id == id)
    })
    .await
}
