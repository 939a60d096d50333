//! List Webhook Deliveries: a page of the deliveries of a webhook, without their events.

use scrip_seal::Place;

use crate::{
    Error, Vault,
    events::DeliveryRecord,
    listing::{
        CursorPage, CursorRequest,
        cursor::{self, EntityPosition},
    },
    policy::PolicyPermit,
    types::{
        Operation,
        id::{EventId, WebhookId},
    },
};

/// Lists deliveries, newest event first.
/// Errors: there is no such webhook, the cursor belongs to another list, or the read cannot be
/// recorded.
pub async fn list_webhook_deliveries(
    vault: &Vault,
    permit: &PolicyPermit,
    webhook: WebhookId,
    query: &CursorRequest,
) -> Result<CursorPage<DeliveryRecord>, Error> {
    check_webhook(permit, webhook)?;
    let caller = permit.require_caller()?;
    let start = query.start.as_ref();
    let start =
        start.map(|it| cursor::open_entity_position(caller, place(webhook), it)).transpose()?;
    let before = start.map(|it| EventId(it.id));
    // One more row tells whether there is another page.
    let rows_max = query.size.saturating_add(1);
    let mut deliveries = vault.store.list_deliveries(permit, webhook, before, rows_max).await?;
    let has_next = deliveries.len() > query.size;
    deliveries.truncate(query.size);
    let last = deliveries.last().filter(|_| has_next);
    let next = last.map(|it| cursor::seal_entity_position(caller, place(webhook), position(it)));
    record_read(vault, permit, webhook).await?;
    Ok(CursorPage { items: deliveries, size: query.size, next })
}

/// The newest deliveries of a webhook, for the operator, who has no cursor.
/// Errors: there is no such webhook, or the read cannot be recorded.
pub async fn list_newest_deliveries(
    vault: &Vault,
    permit: &PolicyPermit,
    webhook: WebhookId,
    deliveries_max: usize,
) -> Result<Vec<DeliveryRecord>, Error> {
    check_webhook(permit, webhook)?;
    let deliveries = vault.store.list_deliveries(permit, webhook, None, deliveries_max).await?;
    record_read(vault, permit, webhook).await?;
    Ok(deliveries)
}

fn check_webhook(permit: &PolicyPermit, webhook: WebhookId) -> Result<(), Error> {
    if permit.tenant().webhooks.contains_key(&webhook) { Ok(()) } else { Err(Error::NotFound) }
}

async fn record_read(
    vault: &Vault,
    permit: &PolicyPermit,
    webhook: WebhookId,
) -> Result<(), Error> {
    let operation = Operation::ListWebhookDeliveries;
    vault.record_policy_read(permit, operation, webhook.to_string()).await
}

fn position(record: &DeliveryRecord) -> EntityPosition {
    EntityPosition { created_at: record.occurred_at, id: record.event.0 }
}

/// The list that a cursor is bound to: the deliveries of one webhook.
fn place(webhook: WebhookId) -> Place {
    Place::new("cursor").text("webhook deliveries").bytes(webhook.0.as_bytes())
}
