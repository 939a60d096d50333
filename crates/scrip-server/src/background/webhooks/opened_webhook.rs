//! A webhook that is ready for deliveries.

use std::sync::Arc;

use scrip_core::{
    Error,
    events::WebhookKey,
    policy::{
        Directory, Tenant,
        webhook::{WebhookDetails, WebhookRecord, WebhookSecrets, WebhookStatus},
    },
};
use scrip_egress::{ConnectionScope, Destination};

/// An enabled webhook of the directory.
#[derive(Debug, Clone)]
pub(super) struct EnabledWebhook {
    pub(super) tenant: Arc<Tenant>,
    pub(super) record: Arc<WebhookRecord>,
}

/// One state of a webhook with its destination and its secrets. It is opened once for each change of
/// the webhook.
#[derive(Debug)]
pub(super) struct OpenedWebhook {
    pub(super) webhook: EnabledWebhook,
    pub(super) destination: Destination,
    pub(super) secrets: WebhookSecrets,
}

/// The tenants of a directory, also those that can still be restored: their last events are
/// delivered.
fn all_tenants(directory: &Directory) -> impl Iterator<Item = &Arc<Tenant>> {
    directory.tenants().into_iter().chain(directory.pending_deletion())
}

/// Finds a tenant, also one that can still be restored.
pub(super) fn find_tenant(directory: &Directory, key: WebhookKey) -> Option<&Arc<Tenant>> {
    let pending = || directory.pending_deletion().iter().find(|it| it.id == key.tenant);
    directory.tenant(key.tenant).or_else(pending)
}

/// Whether there is any enabled webhook.
pub(super) fn has_enabled_webhook(directory: &Directory) -> bool {
    let is_enabled = |it: &Arc<WebhookRecord>| it.status == WebhookStatus::Enabled;
    all_tenants(directory).any(|it| it.webhooks.values().any(is_enabled))
}

impl EnabledWebhook {
    pub(super) fn find(directory: &Directory, key: WebhookKey) -> Option<Self> {
        let tenant = find_tenant(directory, key)?;
        let record = tenant.webhooks.get(&key.webhook)?;
        let is_enabled = record.status == WebhookStatus::Enabled;
        is_enabled.then(|| Self { tenant: Arc::clone(tenant), record: Arc::clone(record) })
    }
}

impl OpenedWebhook {
    pub(super) fn open(webhook: EnabledWebhook) -> Result<Self, Error> {
        let details = WebhookDetails::open(&webhook.tenant.keys, (*webhook.record).clone())?;
        let destination = Destination::parse(details.settings.url.as_str())
            .map_err(|it| Error::Internal(it.into()))?;
        Ok(Self { webhook, destination, secrets: details.secrets })
    }

    /// Whether nothing has changed since it was opened. A reload makes new rows with the same
    /// content.
    pub(super) fn is_state_of(&self, webhook: &EnabledWebhook) -> bool {
        Arc::ptr_eq(&self.webhook.tenant, &webhook.tenant)
            || (Arc::ptr_eq(&self.webhook.tenant.keys, &webhook.tenant.keys)
                && self.webhook.record == webhook.record)
    }

    /// Webhooks share no connections.
    pub(super) fn scope(&self) -> ConnectionScope {
        let record = &self.webhook.record;
        ConnectionScope { tenant: *record.tenant.0.as_bytes(), part: *record.id.0.as_bytes() }
    }
}
