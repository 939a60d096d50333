//! A webhook with its opened settings and secrets, for responses, changes and deliveries.

use scrip_seal::{Sealed, TenantKeys};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    Error,
    policy::{
        DisplayName, SignedRow,
        destination::{DestinationUrl, destination_url::stored_url},
        entity::EntityRecord,
        webhook::{
            EventList, NotifyEmail, WebhookRecord, WebhookSecrets, WebhookStatus, record::SETTINGS,
        },
    },
};

/// All parts of a webhook. `Debug` does not print its secrets.
#[derive(Debug, Clone)]
pub struct WebhookDetails {
    pub record: WebhookRecord,
    pub settings: WebhookSettings,
    pub secrets: WebhookSecrets,
}

impl WebhookDetails {
    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: WebhookRecord) -> Result<Self, Error> {
        let settings = WebhookSettings::open(keys, &record)?;
        let secrets = WebhookSecrets::open(keys, &record)?;
        Ok(Self { record, settings, secrets })
    }

    /// Seals settings and secrets again, and signs the row.
    pub(crate) fn seal(&mut self, keys: &TenantKeys) -> Result<SignedRow<WebhookRecord>, Error> {
        let settings = self.settings.seal(keys, &self.record)?;
        let secrets = self.secrets.seal(keys, &self.record)?;
        (self.record.settings, self.record.secrets) = (settings, secrets);
        Ok(SignedRow::new(keys, self.record.clone()))
    }

    /// Replaces the attributes that a client chooses. The secrets stay.
    pub(crate) fn apply(&mut self, draft: WebhookDraft) {
        self.record.name = draft.name;
        self.record.events = draft.events;
        self.record.status = draft.status.unwrap_or(self.record.status);
        self.settings = WebhookSettings { url: draft.url, notify_email: draft.notify_email };
    }
}

/// A parsed request that creates or replaces a webhook.
#[derive(Debug, Clone)]
pub struct WebhookDraft {
    pub name: DisplayName,
    pub url: DestinationUrl,
    pub events: EventList,
    pub notify_email: Option<NotifyEmail>,
    /// `None` keeps the status: a client that does not know the attribute does not enable a webhook
    /// by accident. A new webhook is enabled.
    pub status: Option<WebhookStatus>,
}

/// Sealed: a URL often contains a secret of the receiver, and an address is personal data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    #[serde(with = "stored_url")]
    pub url: DestinationUrl,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_notify_email"
    )]
    pub notify_email: Option<NotifyEmail>,
}

impl WebhookSettings {
    /// Seals the settings for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &WebhookRecord) -> Result<Sealed, Error> {
        let document = WebhookRecord::write_document(SETTINGS, self)?;
        Ok(record.seal_column(keys, SETTINGS, &document))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &WebhookRecord) -> Result<Self, Error> {
        record.open_document(keys, SETTINGS, &record.settings)
    }
}

fn read_notify_email<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NotifyEmail>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let email = text.as_deref().map(NotifyEmail::parse).transpose();
    email.map_err(|error| de::Error::custom(error.problem))
}
