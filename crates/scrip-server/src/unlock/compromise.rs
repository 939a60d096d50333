//! The new keys of a compromised vault, for the operator.

use std::sync::Arc;

use anyhow::bail;
use scrip_core::keys::{IssuedKey, KeyOwner, KeyRenewal};
use scrip_seal::{AuditKeyPhase, VaultKey};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use crate::unlock::manager::{KeyManager, OpenVault};

/// A new API key, or the new key of a proxy.
#[derive(Serialize, Deserialize)]
pub struct NewKey {
    pub tenant: String,
    /// `None` for the key of a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Id of the API key, or of the proxy.
    pub id: String,
    text: String,
}

impl NewKey {
    pub(super) fn list(renewal: &KeyRenewal) -> Vec<Self> {
        renewal.issued_keys().into_iter().map(|(issued, text)| Self::new(issued, text)).collect()
    }

    fn new(IssuedKey { tenant, owner }: IssuedKey, text: &str) -> Self {
        let (application, id) = match owner {
            KeyOwner::Application { application, key } => {
                (Some(application.to_string()), key.to_string())
            }
            KeyOwner::Proxy(id) => (None, id.to_string()),
        };
        Self { tenant: tenant.to_string(), application, id, text: text.to_owned() }
    }

    /// The line of the file: kind, tenant, application, id of the key, and the key.
    pub fn line(&self) -> Zeroizing<String> {
        let kind = if self.application.is_some() { "api_key" } else { "proxy_key" };
        let application = self.application.as_deref().unwrap_or("-");
        let Self { tenant, id, text, .. } = self;
        Zeroizing::new(format!("{kind}\t{tenant}\t{application}\t{id}\t{text}\n"))
    }
}

impl Drop for NewKey {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.text);
    }
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewKey({})", self.id)
    }
}

impl KeyManager {
    /// Creates the new keys. Nothing is stored yet.
    pub(super) async fn prepare_renewal(
        &self,
        vault: &OpenVault,
        new_key: &Arc<VaultKey>,
    ) -> anyhow::Result<KeyRenewal> {
        if vault.audit_key.history().phase != AuditKeyPhase::Closed {
            bail!(
                "an earlier rotation after a compromise still changes the audit key; try again in \
                 some minutes"
            );
        }
        let store = &self.app.vault.store;
        let records = store.load_directory().await?;
        let has_webhook_key = store.find_webhook_signing_key().await?.is_some();
        let (old, new) = (Arc::clone(&vault.key), Arc::clone(new_key));
        let (fill_random, now) = (self.app.vault.fill_random, self.app.vault.clock.now());
        // A key pair takes up to a second.
        let prepared = spawn_blocking(move || {
            KeyRenewal::prepare(&records, has_webhook_key, [&old, &new], fill_random, now)
        });
        prepared.await?.map_err(|it| anyhow::Error::msg(it.cause_text()))
    }
}
