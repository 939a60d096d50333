//! Update Webhook: replace the attributes that a client chooses, based on the current row.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    policy::{
        PolicyPermit, PolicyWrite,
        webhook::{WebhookDetails, WebhookDraft, WebhookStatus},
    },
    policy_change::{PolicyDecision, RowChange, change_policy},
    types::{Operation, id::WebhookId},
};

/// Replaces all attributes. The secret stays, so that the receiver can check deliveries without a
/// change.
/// Errors: there is no such webhook.
pub async fn update_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
    draft: WebhookDraft,
    recorder: Option<ResponseRecorder<WebhookDetails>>,
) -> Result<WebhookDetails, Error> {
    let change = RowChange { permit, operation: Operation::UpdateWebhook, id };
    rewrite_webhook(vault, change, recorder, |details| details.apply(draft.clone())).await
}

/// Enables a webhook for the operator. All other attributes stay.
/// Errors: there is no such webhook.
pub async fn enable_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
) -> Result<(), Error> {
    let change = RowChange { permit, operation: Operation::UpdateWebhook, id };
    let enable = |details: &mut WebhookDetails| details.record.status = WebhookStatus::Enabled;
    rewrite_webhook(vault, change, None, enable).await.map(drop)
}

/// Changes the row of a webhook, based on the current row.
pub(crate) async fn rewrite_webhook(
    vault: &Vault,
    change: RowChange<WebhookId>,
    recorder: Option<ResponseRecorder<WebhookDetails>>,
    mut edit: impl FnMut(&mut WebhookDetails) + Send,
) -> Result<WebhookDetails, Error> {
    let RowChange { permit, operation, id } = change;
    let now = vault.clock.now();
    let change_permit = permit.clone();
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let row = records.webhooks.iter().find(|it| it.record.id == id).ok_or(Error::NotFound)?;
        let keys = &change_permit.tenant().keys;
        let mut details = WebhookDetails::open(keys, row.record.clone())?;
        edit(&mut details);
        details.record.modified = Some(change_permit.change_stamp(now));
        let writes = vec![PolicyWrite::put(details.seal(keys)?)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: details })
    })
    .await
}
