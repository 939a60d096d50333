//! List Webhooks: a page of the webhooks of a tenant; and one webhook, by its id.

use std::{cmp::Reverse, sync::Arc};

use scrip_seal::Place;

use crate::{
    Error, Vault,
    listing::{
        CursorPage, CursorRequest,
        cursor::{self, EntityPosition},
    },
    policy::{
        PolicyPermit,
        webhook::{WebhookDetails, WebhookRecord},
    },
    types::{Operation, Permission, id::WebhookId},
};

/// Lists webhooks, newest first.
/// Errors: the cursor belongs to another list, a row cannot be opened, or the read cannot be
/// recorded.
pub async fn list_webhooks(
    vault: &Vault,
    permit: &PolicyPermit,
    query: &CursorRequest,
) -> Result<CursorPage<WebhookDetails>, Error> {
    let caller = permit.caller().ok_or(Error::NotFound)?;
    let start = query.start.as_ref();
    let start = start.map(|it| cursor::open_entity_position(caller, place(), it)).transpose()?;
    let is_on_page = |it: &&Arc<WebhookRecord>| start.is_none_or(|start| position(it) < start);
    let mut records: Vec<_> = permit.tenant().webhooks.values().filter(is_on_page).collect();
    records.sort_by_key(|it| Reverse(position(it)));
    let has_next = records.len() > query.size;
    records.truncate(query.size);
    let last = records.last().filter(|_| has_next);
    let next = last.map(|it| cursor::seal_entity_position(caller, place(), position(it)));
    let keys = &permit.tenant().keys;
    let open = |it: &Arc<WebhookRecord>| WebhookDetails::open(keys, it.as_ref().clone());
    let items = records.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    vault.record_policy_read(permit, Operation::ListWebhooks, "").await?;
    Ok(CursorPage { items, size: query.size, next })
}

fn position(record: &Arc<WebhookRecord>) -> EntityPosition {
    EntityPosition { created_at: record.created.at, id: record.id.0 }
}

/// The list that a cursor is bound to.
fn place() -> Place {
    Place::new("cursor").text(Permission::WebhookRead.as_str())
}

/// Errors: there is no such webhook, its row cannot be opened, or the read cannot be recorded.
pub async fn get_webhook(
    vault: &Vault,
    permit: &PolicyPermit,
    id: WebhookId,
) -> Result<WebhookDetails, Error> {
    let tenant = permit.tenant();
    let record = tenant.webhooks.get(&id).ok_or(Error::NotFound)?;
    let details = WebhookDetails::open(&tenant.keys, record.as_ref().clone())?;
    vault.record_policy_read(permit, Operation::GetWebhook, id.to_string()).await?;
    Ok(details)
}
