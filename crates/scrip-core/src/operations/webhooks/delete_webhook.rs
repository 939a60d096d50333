//! Delete Webhook. No event is stored for it from then on.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, PolicyWrite},
    policy_change::{PolicyDecision, change_policy},
    types::{Operation, id::WebhookId},
};

/// Errors: there is no such webhook.
pub async fn delete_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, permit, Operation::DeleteWebhook, now, None, move |records| {
        if !records.webhooks.iter().any(|it| it.record.id == id) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
