//! Lists, adds and removes unlock methods of an open vault.

use std::sync::PoisonError;

use anyhow::{Context, bail};
use scrip_api::app::ReloadMode;
use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval},
    types::id::UnlockId,
    unlock::{UnlockRecord, UnlockState, VaultUnlocks},
};
use scrip_seal::{AuditKey, KeyHistory};
use scrip_unlock::UnlockError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::unlock::{
    create::{NewMethod, blank_record},
    local_key::LocalKeyProblem,
    manager::{KeyManager, OpenVault},
    open::{MethodName, source_text, unwrap_method},
    unlock_settings::UnlockSettings,
};

/// Bounds the threads that wait for a file system that does not answer.
static KEY_CHECKS: Semaphore = Semaphore::const_new(8);

/// An unlock method, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodStatus {
    pub id: String,
    pub kind: String,
    pub label: String,
    pub parameters: Value,
    pub state: String,
    pub key_version: u32,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<String>,
    /// Whether the last check of this server succeeded; `None` before the first one, and for
    /// methods that need people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_working: Option<bool>,
}

impl MethodStatus {
    pub fn new(record: &UnlockRecord) -> Self {
        Self {
            id: record.id.to_string(),
            kind: record.kind.as_str().to_owned(),
            label: record.label.clone(),
            parameters: serde_json::from_str(&record.parameters).unwrap_or_default(),
            state: record.state.as_str().to_owned(),
            key_version: record.key_version,
            created_at: record.created_at.to_string(),
            checked_at: record.checked_at.map(|it| it.to_string()),
            is_working: None,
        }
    }
}

/// All unlock methods, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodList {
    /// Whether the database has no vault yet.
    #[serde(default)]
    pub is_empty_vault: bool,
    /// `None` for a vault without unlock methods.
    pub vault: Option<String>,
    pub key_version: u32,
    pub methods: Vec<MethodStatus>,
    pub unreadable: usize,
    /// The id of the last rotation of the vault key by this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rotation: Option<String>,
    /// `None` while the vault is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_age: Option<VaultKeyAge>,
}

/// The age of the vault key, and its last compromise. Only an open vault knows both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultKeyAge {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    pub days: i64,
    /// Keys of backups before this time may be known to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compromised_at: Option<String>,
}

impl VaultKeyAge {
    pub fn new(unlocks: &VaultUnlocks, history: KeyHistory, now: Timestamp) -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        let created_at = unlocks.key_created_at(history);
        let age_ms = created_at.map_or(0, |it| now.unix_ms.saturating_sub(it.unix_ms));
        let compromised_at = history.compromised_ms.map(|unix_ms| Timestamp { unix_ms });
        Self {
            created_at: created_at.map(|it| it.to_string()),
            days: age_ms / DAY_MS,
            compromised_at: compromised_at.map(|it| it.to_string()),
        }
    }
}

impl MethodList {
    pub fn new(unlocks: &VaultUnlocks) -> Self {
        Self {
            is_empty_vault: false,
            vault: unlocks.identity.map(|it| it.id.to_string()),
            key_version: unlocks.key_version(),
            methods: unlocks.methods.iter().map(MethodStatus::new).collect(),
            unreadable: unlocks.unreadable,
            last_rotation: None,
            key_age: None,
        }
    }
}

impl KeyManager {
    /// Also works while the vault is sealed.
    pub async fn list_methods(&self) -> anyhow::Result<MethodList> {
        let unlocks = self.load_unlocks().await?;
        let mut list = MethodList::new(&unlocks);
        if unlocks.is_legacy() && self.app.is_sealed() {
            let records = self.app.vault.store.load_directory().await?;
            list.is_empty_vault = records.is_empty_vault();
        }
        list.last_rotation =
            self.last_rotation.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let history = self.app.directory.load_full().map(|it| it.audit_key().history());
        let now = self.app.vault.clock.now();
        list.key_age = history.map(|it| VaultKeyAge::new(&unlocks, it, now));
        for method in &mut list.methods {
            method.is_working = self.health.is_working(&method.id);
        }
        Ok(list)
    }

    /// Checks that this server can read a wrapping key on this machine. Does not ask services.
    /// Errors: the key is missing, is no key, or is not the server's alone.
    pub(crate) async fn check_local_key(
        &self,
        settings: &UnlockSettings,
    ) -> Result<(), LocalKeyProblem> {
        let slot = KEY_CHECKS.try_acquire().map_err(|_| {
            UnlockError::Unavailable("the server checks too many keys; try again".to_owned())
        })?;
        self.inputs.check_local_key(settings, slot).await
    }

    /// Wraps the vault key with another source.
    /// Errors: the vault is sealed, or the source does not wrap and return the vault key.
    pub async fn add_method(&self, method: &NewMethod, uid: u32) -> anyhow::Result<MethodStatus> {
        let _guard = self.changes.lock().await;
        let vault = self.open_vault().await?;
        check_label(&vault, &method.label)?;
        let core_vault = &self.app.vault;
        let record = blank_record(core_vault, method, vault.key.version(), core_vault.clock.now());
        let command = format!("keys add {} {} by uid {uid}", record.kind.as_str(), record.id);
        self.record_start(&command).await?;
        let result = async {
            let record = self.inputs.wrap_key(vault.identity, record, &vault.key).await?;
            let id = record.id;
            let added = self.insert(&vault, record).await?;
            // The source has just returned the vault key, as in a check.
            self.health.set(added.id.clone(), true);
            drop(core_vault.store.save_unlock_check(id, core_vault.clock.now()).await);
            anyhow::Ok(added)
        };
        self.record_end(&command, result.await).await
    }

    /// Signs and stores a row.
    pub(crate) async fn insert(
        &self,
        vault: &OpenVault,
        record: UnlockRecord,
    ) -> anyhow::Result<MethodStatus> {
        let record = record.signed(&vault.audit_key, vault.identity.id);
        match self.app.vault.store.insert_unlock(record.clone()).await? {
            ChangeOutcome::Done => Ok(MethodStatus::new(&record)),
            ChangeOutcome::Stale => bail!("the vault key was rotated at the same time; try again"),
        }
    }

    /// Removes an unlock method and overwrites its row.
    /// Errors: the method does not exist, or is the last one.
    pub async fn remove_method(&self, id: &str, uid: u32) -> anyhow::Result<()> {
        let _guard = self.changes.lock().await;
        let id = UnlockId::parse(id).context("this is not the id of an unlock method")?;
        // Only an open vault records the removal.
        let vault = self.open_vault().await?;
        let kind = vault.unlocks.find(id).map_or("", |it| it.kind.as_str());
        let command = format!("keys remove {kind} {id} by uid {uid}");
        self.record_start(&command).await?;
        let result = async {
            self.check_remaining_methods(&vault, id).await?;
            let removal = self.prepare_removal(&vault, id).await?;
            match self.app.vault.store.delete_unlock(removal).await? {
                UnlockRemoval::Removed => {
                    self.health.forget(&id.to_string());
                    let reloaded = self.app.reload_with_mode(ReloadMode::Always).await;
                    reloaded.map_err(|it| anyhow::Error::msg(it.cause.cause_text()))
                }
                UnlockRemoval::Stale => bail!("the keys changed at the same time; try again"),
                UnlockRemoval::Missing => {
                    bail!("unlock method {id} does not exist; run: scrip keys list")
                }
                UnlockRemoval::LastMethod => bail!(
                    "{id} is the last unlock method: without it, nothing opens the vault. Add \
                     another method first: scrip keys add"
                ),
            }
        };
        self.record_end(&command, result.await).await
    }
}

impl KeyManager {
    /// Another method must open the vault after the removal: it returns the vault key now, or has
    /// shares.
    async fn check_remaining_methods(
        &self,
        vault: &OpenVault,
        removed: UnlockId,
    ) -> anyhow::Result<()> {
        let is_active = |it: &&UnlockRecord| it.state == UnlockState::Active;
        if vault.unlocks.find(removed).filter(is_active).is_none() {
            return Ok(());
        }
        let (mut others, mut problems) = (0_usize, Vec::new());
        for method in vault.unlocks.active_methods().filter(|it| it.id != removed) {
            others = others.saturating_add(1);
            let name = MethodName::new(method);
            if !method.is_authentic(&vault.audit_key, vault.identity.id) {
                problems.push(format!("{name} was altered outside the vault"));
                continue;
            }
            if method.kind.needs_people() {
                return Ok(());
            }
            match unwrap_method(&self.inputs, vault.identity, method).await {
                Ok(key) if key.constant_time_eq(vault.key.secret().expose()) => return Ok(()),
                Ok(_) => problems.push(format!("{name} returns another key")),
                Err(error) => {
                    problems.push(format!("{name}: {}", source_text(method.kind, &error)));
                }
            }
        }
        // The store has a message of its own for the last method.
        if others == 0 {
            return Ok(());
        }
        bail!(
            "no other unlock method opens the vault now, so {removed} was not removed: {}",
            problems.join("; ")
        )
    }

    /// Adds the method to those that the vault remembers as removed.
    async fn prepare_removal(
        &self,
        vault: &OpenVault,
        id: UnlockId,
    ) -> anyhow::Result<MethodRemoval> {
        let records = self.app.vault.store.load_directory().await?;
        let audit_key_before = records.system_keys.context("the vault is empty")?.audit_key;
        let bytes = *id.0.as_bytes();
        let after = AuditKey::with_removed_method(&*vault.key, &audit_key_before, bytes)?;
        let audit_key_after = after.context(
            "too many unlock methods were removed since the vault key was created; run first: \
             scrip keys rotate vault",
        )?;
        Ok(MethodRemoval { id, audit_key_before, audit_key_after })
    }
}

const LABEL_CHARS_MAX: usize = 64;

/// Errors: the label is too long or not printable, or another method has it.
pub(crate) fn check_label(vault: &OpenVault, label: &str) -> anyhow::Result<()> {
    let is_valid = !label.is_empty()
        && label.chars().count() <= LABEL_CHARS_MAX
        && label.chars().all(|it| !it.is_control());
    if !is_valid {
        bail!("the label must have 1 to {LABEL_CHARS_MAX} printable characters");
    }
    if vault.unlocks.methods.iter().any(|it| it.label == label) {
        bail!("another unlock method has this label; choose another one with --label");
    }
    Ok(())
}
