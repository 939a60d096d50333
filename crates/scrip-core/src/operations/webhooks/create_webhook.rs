//! Create Webhook, with a new secret.

use scrip_seal::Sealed;

use crate::{
    Error, FieldError, Vault,
    idempotency::ResponseRecorder,
    policy::{
        PolicyPermit, PolicyRecords, PolicyWrite,
        webhook::{
            WebhookDetails, WebhookDraft, WebhookRecord, WebhookSecrets, WebhookSettings,
            WebhookStatus,
        },
    },
    policy_change::{PolicyDecision, change_policy},
    types::{
        Operation,
        id::{WebhookId, random_uuid},
    },
};

/// Errors: the tenant has as many webhooks as its quota allows.
pub async fn create_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    draft: WebhookDraft,
    recorder: Option<ResponseRecorder<WebhookDetails>>,
) -> Result<WebhookDetails, Error> {
    let now = vault.clock.now();
    let mut details = new_details(vault, &permit, draft);
    let signed_row = details.seal(&permit.tenant().keys)?;
    change_policy(vault, permit, Operation::CreateWebhook, now, recorder, move |records| {
        check_quota(records)?;
        let entity = details.record.id.to_string();
        let writes = vec![PolicyWrite::put(signed_row.clone())];
        Ok(PolicyDecision { writes, entity, outcome: details.clone() })
    })
    .await
}

/// Checks the quota in the rows on which the change is decided, so that concurrent requests cannot exceed it.
fn check_quota(records: &PolicyRecords) -> Result<(), Error> {
    let limit = records.tenant.record.quotas.webhook_limit;
    if u64::try_from(records.webhooks.len()).is_ok_and(|it| it < limit) {
        return Ok(());
    }
    let problem = format!("allows at most {limit} webhooks per tenant; delete one").into();
    Err(FieldError { field: "webhook_limit".into(), problem }.into())
}

fn new_details(vault: &Vault, permit: &PolicyPermit, draft: WebhookDraft) -> WebhookDetails {
    let unsealed = || Sealed::from_stored(Vec::new());
    let record = WebhookRecord {
        id: WebhookId(random_uuid(vault.fill_random)),
        tenant: permit.tenant().id,
        name: draft.name,
        status: draft.status.unwrap_or(WebhookStatus::Enabled),
        events: draft.events,
        settings: unsealed(),
        secrets: unsealed(),
        created: permit.change_stamp(vault.clock.now()),
        modified: None,
    };
    let settings = WebhookSettings { url: draft.url, notify_email: draft.notify_email };
    WebhookDetails { record, settings, secrets: WebhookSecrets::new(vault.fill_random) }
}
