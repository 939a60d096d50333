//! Test Webhook: an event without a meaning, delivered as all others.

use crate::{
    Error, FieldError, Vault,
    audit::AuditRecord,
    change::CommitExtras,
    events::{DeliveryRecord, DeliveryState, EventSource, NewDelivery, payload},
    idempotency::{ResponseRecorder, response::seal_response},
    policy::{
        PolicyPermit,
        webhook::{WebhookRecord, WebhookStatus},
    },
    types::{Operation, id::WebhookId},
};

/// Stores a test event for the webhook, also if the webhook does not name this type of event.
/// Errors: there is no such webhook, or it is disabled.
pub async fn test_webhook(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
    recorder: Option<ResponseRecorder<DeliveryRecord>>,
) -> Result<DeliveryRecord, Error> {
    let now = vault.clock.now();
    let webhook = find_enabled_webhook(&permit, id)?;
    let audit = AuditRecord::for_policy(Operation::TestWebhook, &permit, now);
    let source = EventSource::new(permit.tenant(), &audit, vault.fill_random);
    let deliveries = source.raise_test(id, payload::tenant::describe_test(webhook));
    let record = deliveries.first().map(new_record);
    let record = record.ok_or_else(|| Error::Internal("a test has no delivery".into()))?;
    let idempotency = match (&recorder, permit.caller()) {
        (Some(recorder), Some(caller)) => {
            let (digests, rendered) = (recorder.claim.digests, (recorder.render)(&record));
            Some(seal_response(caller, digests, rendered, permit.requirement(), now)?)
        }
        (_, _) => None,
    };
    let extras = CommitExtras { audit, entity: id.to_string(), idempotency, deliveries };
    vault.store.insert_deliveries(permit.clone(), extras).await?;
    // The claim is locked until the delivery is on disk.
    drop(recorder);
    Ok(record)
}

/// A webhook that gets deliveries. Those of a disabled webhook would wait until they are too old.
pub(crate) fn find_enabled_webhook(
    permit: &PolicyPermit,
    id: WebhookId,
) -> Result<&WebhookRecord, Error> {
    let webhook = permit.tenant().webhooks.get(&id).ok_or(Error::NotFound)?;
    if webhook.status == WebhookStatus::Enabled {
        return Ok(webhook);
    }
    let rule = "is disabled: the webhook gets no deliveries until PUT /webhooks/{id} enables it";
    Err(FieldError::new("status", rule).into())
}

fn new_record(delivery: &NewDelivery) -> DeliveryRecord {
    DeliveryRecord {
        event: delivery.event,
        event_type: delivery.event_type.to_owned(),
        occurred_at: delivery.occurred_at,
        state: DeliveryState::Pending,
        attempts: 0,
        last_attempt_at: None,
        next_attempt_at: Some(delivery.occurred_at),
        last_status: None,
        last_error: None,
    }
}
