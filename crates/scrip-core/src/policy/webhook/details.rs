//! A webhook with its opened settings and secrets, for responses, changes and deliveries.

use scrip_seal::TenantKeys;

use crate::{
    Error,
    policy::{
        SignedRow,
        webhook::{WebhookDraft, WebhookRecord, WebhookSecrets, WebhookSettings},
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
