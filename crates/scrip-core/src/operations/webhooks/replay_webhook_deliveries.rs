//! Replay Webhook Deliveries: finished deliveries become pending again, with the same event ids.

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    change::CommitExtras,
    idempotency::{ResponseRecorder, response::seal_response},
    operations::webhooks::test_webhook::find_enabled_webhook,
    policy::PolicyPermit,
    store::deliveries::DeliveryReplay,
    types::{Operation, id::WebhookId},
};

/// Each step is one transaction, so that a replay of many deliveries does not hold the writer.
const STEP_DELIVERIES_MAX: usize = 1000;

/// The number of deliveries that a replay made pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryReplayCount(pub usize);

/// Repeats the finished deliveries of events since a time. The audit record is committed with the
/// first step, so that no step is without one.
///
/// Errors: there is no such webhook, it is disabled, or the time is in the future.
pub async fn replay_webhook_deliveries(
    vault: &Vault,
    permit: PolicyPermit,
    id: WebhookId,
    from: Timestamp,
    recorder: Option<ResponseRecorder<DeliveryReplayCount>>,
) -> Result<DeliveryReplayCount, Error> {
    find_enabled_webhook(&permit, id)?;
    let now = vault.clock.now();
    if from > now {
        return Err(FieldError::new("from", "must not be in the future").into());
    }
    let mut audit = AuditRecord::for_policy(Operation::ReplayWebhookDeliveries, &permit, now);
    audit.detail = Some(format!("from {from}").into());
    let extras = |audit, idempotency| CommitExtras {
        audit,
        entity: id.to_string(),
        idempotency,
        deliveries: Vec::new(),
    };
    let mut first_extras = Some(extras(audit.clone(), None));
    let mut after = None;
    let mut count = 0_usize;
    loop {
        let replay =
            DeliveryReplay { webhook: id, from, after, now, deliveries_max: STEP_DELIVERIES_MAX };
        let step = vault.store.replay_deliveries(permit.clone(), replay, first_extras.take());
        let step = step.await?;
        count = count.saturating_add(step.count);
        after = step.last;
        if after.is_none() {
            break;
        }
    }
    let replayed = DeliveryReplayCount(count);
    // Only now the response is known. A second record has the number of the deliveries.
    if let (Some(recorder), Some(caller)) = (&recorder, permit.caller()) {
        let (digests, rendered) = (recorder.claim.digests, (recorder.render)(&replayed));
        let stored = seal_response(caller, digests, rendered, permit.requirement(), now)?;
        audit.repeats = Some(i64::try_from(count).unwrap_or(i64::MAX));
        let extras = extras(audit, Some(stored));
        vault.store.insert_deliveries(permit.clone(), extras).await?;
    }
    drop(recorder);
    Ok(replayed)
}
