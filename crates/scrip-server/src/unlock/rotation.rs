//! Rotation of the vault key of a running server.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_api::app::ReloadMode;
use scrip_core::{
    keys::{IssuedKey, KeyOwner, KeyRenewal, VaultKeyRotation},
    types::id::random_uuid,
    unlock::{UnlockRecord, UnlockState},
};
use scrip_operator::secret_text::SecretText;
use scrip_seal::{AuditKey, AuditKeyPhase, VaultKey};
use serde::{Deserialize, Serialize};
use tokio::{task::spawn_blocking, time::sleep};
use zeroize::Zeroizing;

use crate::{
    clock::ticks,
    unlock::{
        manager::{KeyManager, OpenVault, PendingRotation},
        open::MethodName,
        shares::{IssuedShares, ShareCount, combine_shares, issue_shares},
        unlock_settings::UnlockSettings,
    },
};

/// How long the new shares may take until they are entered.
const CEREMONY_TIME: Duration = Duration::from_secs(30 * 60);
/// Shared epoch keys that the old version wrapped are needed for this long.
const PREVIOUS_KEY_TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// The result of a rotation, or the shares that must be entered before it happens.
#[derive(Debug, Serialize, Deserialize)]
pub struct RotationStatus {
    /// Names the rotation in its confirmation.
    pub id: String,
    pub from: u32,
    pub to: u32,
    /// `None` after the rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<IssuedShares>,
    /// After a compromise: the new API keys and proxy keys, which work after the rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_keys: Option<Vec<NewKey>>,
}

/// Why the vault key is rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationReason {
    Routine,
    /// Others may know the vault key: all keys below it are replaced too.
    Compromise,
}

impl KeyManager {
    /// Rotates the vault key. With a method of shares, the rotation waits for the new shares. After a
    /// compromise, it waits until the operator has stored the new API keys.
    ///
    /// Errors: the vault is sealed, a method was altered or does not wrap the new key, or the rows
    /// changed at the same time. Then nothing is rotated.
    pub async fn rotate_vault(
        &self,
        reason: RotationReason,
        count: Option<&ShareCount>,
        uid: u32,
    ) -> anyhow::Result<RotationStatus> {
        let _guard = self.changes.lock().await;
        let vault = self.open_vault().await?;
        check_authentic(&vault)?;
        let from = vault.key.version();
        let to = from.checked_add(1).context("the vault key has no further version")?;
        let command = command_text(reason, from, to, uid);
        self.record_start(&command).await?;
        let result = async {
            let new_key = Arc::new(VaultKey::generate(to));
            let renewal = match reason {
                RotationReason::Routine => None,
                RotationReason::Compromise => Some(self.prepare_renewal(&vault, &new_key).await?),
            };
            let audit_key = renewal.as_ref().map_or(&*vault.audit_key, |it| &it.audit_key);
            let (methods, issued) = self.rewrap_methods(&vault, &new_key, count, audit_key).await?;
            let replaced = vault.unlocks.methods.iter().map(|it| it.id).collect();
            let (shared, shares) = issued.unzip();
            let new_keys = renewal.as_ref().map(NewKey::list);
            let (identity, started) = (vault.identity, ticks());
            let id = random_uuid(self.app.vault.fill_random).to_string();
            let pending = PendingRotation {
                id: id.clone(),
                uid,
                identity,
                new_key,
                replaced,
                methods,
                shared,
                renewal,
                started,
            };
            if shares.is_none() && new_keys.is_none() {
                self.commit(&vault, pending).await?;
            } else {
                *self.pending_rotation.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(pending);
            }
            Ok(RotationStatus { id, from, to, shares, new_keys })
        };
        match result.await {
            Ok(status) if status.shares.is_some() || status.new_keys.is_some() => Ok(status),
            result => self.record_end(&command, result).await,
        }
    }

    /// Rotates the vault key after the holders of the new shares have entered them, and after the
    /// operator has stored the new API keys.
    ///
    /// Errors: no rotation waits, the shares do not open its row, or as
    /// [`KeyManager::rotate_vault`].
    pub async fn confirm_rotation(
        &self,
        rotation: &str,
        shares: &[SecretText],
        uid: u32,
    ) -> anyhow::Result<RotationStatus> {
        let _guard = self.changes.lock().await;
        let vault = self.open_vault().await?;
        let is_current = |it: &mut PendingRotation| {
            it.id == rotation
                && it.uid == uid
                && it.identity == vault.identity
                && ticks().saturating_sub(it.started) < CEREMONY_TIME
        };
        let pending = self
            .pending_rotation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(is_current);
        let pending = pending.context(
            "this rotation does not wait any more: it took too long, the server was restarted, or \
             another change came first. It did not happen; run: scrip keys rotate vault",
        )?;
        // The rows may have been altered since the rotation started.
        check_authentic(&vault)?;
        if let Some(shared) = &pending.shared {
            let key = match combine_shares(pending.identity, shared, shares) {
                Ok(key) => key,
                Err(error) => {
                    *self.pending_rotation.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(pending);
                    return Err(error);
                }
            };
            if !key.constant_time_eq(pending.new_key.secret().expose()) {
                bail!("the shares return another key; nothing was rotated");
            }
        }
        let (from, to) = (vault.key.version(), pending.new_key.version());
        let reason = match pending.renewal {
            Some(_) => RotationReason::Compromise,
            None => RotationReason::Routine,
        };
        let command = command_text(reason, from, to, uid);
        let result = self.commit(&vault, pending).await;
        self.record_end(&command, result).await?;
        Ok(RotationStatus { id: rotation.to_owned(), from, to, shares: None, new_keys: None })
    }

    /// Wraps the new key with every source, and creates new shares.
    async fn rewrap_methods(
        &self,
        vault: &OpenVault,
        new_key: &VaultKey,
        count: Option<&ShareCount>,
        audit_key: &AuditKey,
    ) -> anyhow::Result<(Vec<UnlockRecord>, Option<(UnlockRecord, IssuedShares)>)> {
        let (identity, mut methods, mut issued) = (vault.identity, Vec::new(), None);
        for method in vault.unlocks.active_methods() {
            let record = UnlockRecord {
                key_version: new_key.version(),
                checked_at: None,
                wrapped: Vec::new(),
                ..method.clone()
            };
            let record = if let UnlockSettings::Shamir(it) = UnlockSettings::from_record(method)? {
                if issued.is_some() {
                    bail!(
                        "the vault has several sets of shares, and a rotation makes one new set; \
                         remove the others first: scrip keys remove"
                    );
                }
                let count = count.cloned().unwrap_or(ShareCount {
                    shares: it.shares,
                    threshold: it.threshold,
                    recipients: Vec::new(),
                });
                let (record, shares) = issue_shares(identity, record, new_key, &count)?;
                let record = record.signed(audit_key, identity.id);
                issued = Some((record.clone(), shares));
                record
            } else {
                let wrapped = self.inputs.wrap_key(identity, record, new_key).await;
                let wrapped = wrapped.with_context(|| {
                    let name = MethodName::new(method);
                    format!(
                        "unlock method {name} does not wrap the new vault key; nothing was \
                         rotated. Repair it, or remove it: scrip keys remove {}",
                        method.id
                    )
                })?;
                wrapped.signed(audit_key, identity.id)
            };
            methods.push(record);
        }
        Ok((methods, issued))
    }

    /// Replaces all wrapped keys in one transaction, then uses the new key.
    async fn commit(&self, vault: &OpenVault, pending: PendingRotation) -> anyhow::Result<()> {
        let PendingRotation { id, new_key, replaced, methods, renewal, .. } = pending;
        let now = self.app.vault.clock.now();
        let (from, to) = (vault.key.version(), new_key.version());
        let (old, new) = (Arc::clone(&vault.key), Arc::clone(&new_key));
        let rewrap = Box::new(move |keys: scrip_core::keys::WrappedKeys| {
            let tenants = keys.tenant_count();
            let keys = match renewal {
                Some(renewal) => renewal.apply(keys, &old, &new)?,
                None => keys.rewrap(&old, &new, now)?,
            };
            tracing::info!(from, to, tenants, "rotating the vault key");
            Ok(keys)
        });
        let rotation = VaultKeyRotation { from, to, replaced, methods, rewrap };
        match self.app.vault.store.rotate_vault_key(rotation).await {
            Ok(result) => result.map_err(|it| anyhow::Error::msg(it.cause_text()))?,
            // The transaction may have been committed.
            Err(error) if self.load_unlocks().await?.key_version() != to => {
                return Err(error.into());
            }
            Err(_) => (),
        }
        *self.last_rotation.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        self.ring.replace(new_key);
        let reloaded = self.app.reload_with_mode(ReloadMode::Always).await;
        if let Err(error) = reloaded {
            let cause = error.cause.cause_text();
            tracing::error!(cause, "the directory cannot be loaded with the new vault key");
        }
        self.rewrap_epoch_keys().await;
        let ring = Arc::clone(&self.ring);
        tokio::spawn(async move {
            sleep(PREVIOUS_KEY_TIME).await;
            ring.forget_previous();
        });
        tracing::info!(from, to, "rotated the vault key");
        Ok(())
    }

    /// Offers shared epoch keys to the other nodes again, wrapped by the new vault key.
    async fn rewrap_epoch_keys(&self) {
        let epoch_keys = &self.app.vault.epoch_keys;
        if let Err(error) = epoch_keys.rewrap() {
            tracing::error!(%error, "epoch keys cannot be wrapped again: a restart may lose CVCs");
        }
        drop(epoch_keys.republish().await);
    }
}

/// The name of the rotation in the audit log.
fn command_text(reason: RotationReason, from: u32, to: u32, uid: u32) -> String {
    let option = match reason {
        RotationReason::Routine => "",
        RotationReason::Compromise => " --compromised",
    };
    format!("keys rotate vault{option} from {from} to {to} by uid {uid}")
}

/// A row with altered parameters could send the new key to an attacker.
fn check_authentic(vault: &OpenVault) -> anyhow::Result<()> {
    if vault.unlocks.unreadable > 0 {
        bail!(
            "a row of unlocks cannot be read: it was altered outside the vault; run: scrip doctor"
        );
    }
    let methods = vault.unlocks.methods.iter();
    let mut active_methods = methods.filter(|it| it.state == UnlockState::Active);
    let is_altered = |it: &&UnlockRecord| !it.is_authentic(&vault.audit_key, vault.identity.id);
    match active_methods.find(is_altered) {
        Some(method) => bail!(
            "unlock method {} was altered outside the vault, so the new key is not given to it; \
             remove it: scrip keys remove {}",
            MethodName::new(method),
            method.id
        ),
        None => Ok(()),
    }
}

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
