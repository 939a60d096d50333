//! Disable Webhook, by the vault: the receiver does not want or does not take events.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{
        PolicyPermit, PolicyWrite, Tenant,
        webhook::{WebhookDetails, WebhookRecord, WebhookStatus},
    },
    policy_change::{PolicyDecision, change_policy},
    types::Operation,
};

/// Disables a webhook as its tenant can, with an audit record. Returns whether it did: a webhook
/// that was deleted or changed after the failed deliveries stays as it is.
///
/// Errors: the store is unavailable, or the policy of the tenant was altered outside of the vault.
pub async fn disable_webhook(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    failed: &Arc<WebhookRecord>,
) -> Result<bool, Error> {
    let (now, failed) = (vault.clock.now(), Arc::clone(failed));
    let permit = PolicyPermit::for_vault(Arc::clone(tenant));
    let change_permit = permit.clone();
    let operation = Operation::DisableWebhook;
    let result = change_policy(vault, permit, operation, now, None, move |records| {
        let id = failed.id;
        let row = records.webhooks.iter().find(|it| it.record == *failed);
        let row = row.filter(|it| it.record.status == WebhookStatus::Enabled);
        let keys = &change_permit.tenant().keys;
        let record = row.ok_or(Error::NotFound)?.record.clone();
        let mut details = WebhookDetails::open(keys, record)?;
        details.record.status = WebhookStatus::Disabled;
        details.record.modified = Some(change_permit.change_stamp(now));
        let writes = vec![PolicyWrite::put(details.seal(keys)?)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    });
    match result.await {
        Ok(()) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}
