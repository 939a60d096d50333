//! The sealed settings of a webhook: where events are sent, and who looks after it.

use scrip_seal::{Sealed, Secret, TenantKeys};
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    policy::{
        destination::DestinationUrl,
        entity::EntityRecord,
        webhook::{NotifyEmail, WebhookRecord},
    },
};

/// Sealed: a URL often contains a secret of the receiver, and an address is personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub url: DestinationUrl,
    pub notify_email: Option<NotifyEmail>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWebhookSettings {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify_email: Option<String>,
}

impl WebhookSettings {
    /// Seals the settings for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &WebhookRecord) -> Result<Sealed, Error> {
        let stored = StoredWebhookSettings {
            url: self.url.as_str().to_owned(),
            notify_email: self.notify_email.as_ref().map(|it| it.as_str().to_owned()),
        };
        let bytes = serde_json::to_vec(&stored).map_err(|_| invalid_settings())?;
        Ok(record.seal_column(keys, "webhook.settings", &Secret::new(bytes)))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &WebhookRecord) -> Result<Self, Error> {
        let secret = record.open_column(keys, "webhook.settings", &record.settings)?;
        let stored: StoredWebhookSettings =
            serde_json::from_slice(secret.expose()).map_err(|_| invalid_settings())?;
        let url = DestinationUrl::from_stored(&stored.url).ok_or_else(invalid_settings)?;
        let notify_email = stored.notify_email.as_deref().map(NotifyEmail::parse).transpose();
        Ok(Self { url, notify_email: notify_email.map_err(|_| invalid_settings())? })
    }
}

fn invalid_settings() -> Error {
    Error::Internal("the settings of a webhook cannot be parsed".into())
}
