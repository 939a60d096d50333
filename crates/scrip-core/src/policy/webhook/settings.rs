//! The sealed settings of a webhook: where events are sent, and who looks after it.

use scrip_seal::{Sealed, TenantKeys};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    Error,
    policy::{
        destination::{DestinationUrl, destination_url::stored_url},
        entity::EntityRecord,
        webhook::{NotifyEmail, WebhookRecord, record::SETTINGS},
    },
};

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
