//! The stored row of a webhook.

use scrip_seal::{Place, Purpose, Sealed, TenantKeys};

use crate::{
    Error,
    policy::{ChangeStamp, DisplayName, PolicyRow, SignedRow, webhook::EventList},
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
    #[must_use]
    pub fn wants_event(&self, event: EventType) -> bool {
        self.status == WebhookStatus::Enabled && self.events.to_set().has(event)
    }

    /// Seals settings and secrets again with this version of the sealing key, and signs the row.
    /// `None` if this version sealed both.
    pub(crate) fn reseal(
        &self,
        keys: &TenantKeys,
        version: u32,
    ) -> Result<Option<SignedRow<Self>>, Error> {
        let reseal =
            |kind, sealed| keys.reseal(version, Purpose::Data, &self.sealed_place(kind), sealed);
        let settings = reseal("webhook.settings", &self.settings)?;
        let secrets = reseal("webhook.secrets", &self.secrets)?;
        if settings.is_none() && secrets.is_none() {
            return Ok(None);
        }
        let mut record = self.clone();
        record.settings = settings.unwrap_or(record.settings);
        record.secrets = secrets.unwrap_or(record.secrets);
        Ok(Some(SignedRow::new(keys, record)))
    }

    /// The associated data of a sealed column: every clear column.
    pub(super) fn sealed_place(&self, kind: &'static str) -> Place {
        let place = Place::new(kind)
            .bytes(self.id.0.as_bytes())
            .bytes(self.tenant.0.as_bytes())
            .text(self.name.as_str())
            .text(self.status.as_str())
            .text(&self.events.to_text());
        ChangeStamp::add_to_place(place, &[Some(self.created), self.modified])
    }
}

impl PolicyRow for WebhookRecord {
    fn place(&self) -> Place {
        self.sealed_place("policy.webhook")
            .bytes(self.settings.as_bytes())
            .bytes(self.secrets.as_bytes())
    }
}
