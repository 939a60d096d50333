//! The stored row of a webhook.

use scrip_seal::Sealed;

use crate::{
    policy::{
        ChangeStamp, DisplayName,
        entity::{
            Column, Entity, EntityRecord, EntityWrites, InvalidRow, RestoreEffect, RestoreWarning,
            RowReader, RowWriter,
        },
        webhook::EventList,
    },
    types::{
        EventType,
        id::{TenantId, WebhookId},
    },
};

words! {
    /// Whether events are sent.
    pub enum WebhookStatus {
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

pub const WEBHOOK: Entity = Entity {
    table: "webhooks",
    name: "webhook",
    kind: "webhook",
    mac_kind: "policy.webhook",
    columns: &[
        Column::id("tenant").key(),
        Column::id("id").key(),
        Column::text("name"),
        Column::text("status"),
        Column::text("events"),
        Column::sealed("settings", SETTINGS),
        Column::sealed("secrets", SECRETS),
        Column::id("created_by").optional().constant(),
        Column::number("created_at").constant(),
        Column::id("modified_by").optional(),
        Column::number("modified_at").optional(),
        Column::mac("mac"),
    ],
    writes: EntityWrites::Upsert,
    restore_warning: Some(RestoreWarning {
        changes: &[RestoreEffect::ComesBack, RestoreEffect::Changes],
        text: "webhooks that come back or change send events to the URLs of the backup, signed with \
               the secrets of the backup",
    }),
};

pub(super) const SETTINGS: &str = "webhook.settings";
pub(super) const SECRETS: &str = "webhook.secrets";

/// The stored row of a webhook: a signed row of the policy. The columns that decide which events
/// are stored are in clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRecord {
    pub id: WebhookId,
    pub tenant: TenantId,
    pub name: DisplayName,
    pub status: WebhookStatus,
    pub events: EventList,
    pub settings: Sealed,
    pub secrets: Sealed,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
}

impl WebhookRecord {
    /// Whether the webhook is enabled and names the event.
    pub fn wants_event(&self, event: EventType) -> bool {
        self.status == WebhookStatus::Enabled && self.events.to_set().has(event)
    }
}

impl EntityRecord for WebhookRecord {
    const ENTITY: &'static Entity = &WEBHOOK;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("tenant", self.tenant.0);
        row.put("id", self.id.0);
        row.put("name", self.name.as_str());
        row.put("status", self.status.as_str());
        row.put("events", self.events.to_text());
        row.put("settings", self.settings.as_bytes());
        row.put("secrets", self.secrets.as_bytes());
        row.put_created(self.created);
        row.put_modified(self.modified);
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        Ok(Self {
            id: WebhookId(row.id("id")?),
            tenant: row.tenant()?,
            name: row.text("name", DisplayName::from_stored)?,
            status: row.text("status", WebhookStatus::parse)?,
            events: row.text("events", EventList::from_text)?,
            settings: row.sealed("settings")?,
            secrets: row.sealed("secrets")?,
            created: row.created()?,
            modified: row.modified()?,
        })
    }
}
