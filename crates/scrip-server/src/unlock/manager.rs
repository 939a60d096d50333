//! The vault key of a running server: unsealing, and everything that changes unlock methods.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_api::app::{App, ReloadMode, readiness::NotReadyReason};
use scrip_core::{
    Error,
    keys::KeyRenewal,
    policy::{Directory, DirectoryRecords, REPLACED_KEYS},
    types::{StoreError, id::UnlockId},
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
};
use scrip_seal::{AuditKey, KeySource, VaultKey, VaultKeyRing};
use tokio::sync::{Mutex, Notify};

use crate::{
    config::Settings,
    unlock::{
        entered_shares::EnteredShares,
        inputs::UnlockInputs,
        open::{OpenedKey, altered_methods, open_vault_key},
    },
};

/// Opens the vault of a server and changes its unlock methods.
#[derive(Debug)]
pub struct KeyManager {
    pub app: Arc<App>,
    pub(crate) inputs: UnlockInputs,
    pub(crate) ring: Arc<VaultKeyRing>,
    /// One change at a time.
    pub(crate) changes: Mutex<()>,
    pub(crate) entered_shares: std::sync::Mutex<Vec<EnteredShares>>,
    pub(crate) pending_rotation: std::sync::Mutex<Option<PendingRotation>>,
    /// The id of the last rotation by this process. A command that lost its answer compares it.
    pub(crate) last_rotation: std::sync::Mutex<Option<String>>,
    pub health: UnlockHealth,
    /// The root key of the settings opened the vault, which had no unlock methods.
    pub(crate) has_legacy_key: AtomicBool,
    /// Why the vault is sealed, for the operator.
    pub(crate) sealed_cause: std::sync::Mutex<Option<String>>,
    /// The vault was sealed again, so that it must be opened again.
    pub(crate) sealed: Notify,
    /// People have entered the shares of a new vault key.
    pub(crate) new_key_entered: Notify,
}

/// Why a vault could not be unsealed.
#[derive(Debug)]
pub(crate) enum UnsealError {
    Store(Error),
    /// The vault key opens the pepper, but not the directory.
    Keys(Error),
    /// A rotation of fingerprints was interrupted.
    Rotation(Error),
}

impl UnsealError {
    /// The cause, for the operator.
    pub(crate) fn explain(self) -> anyhow::Error {
        let (Self::Store(error) | Self::Keys(error) | Self::Rotation(error)) = self;
        anyhow::Error::msg(error.cause_text())
    }
}

impl From<StoreError> for UnsealError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// What a change of the unlock methods needs.
pub(crate) struct OpenVault {
    pub(crate) identity: VaultIdentity,
    pub(crate) unlocks: VaultUnlocks,
    pub(crate) key: Arc<VaultKey>,
    pub(crate) audit_key: Arc<AuditKey>,
}

impl KeyManager {
    pub fn new(app: Arc<App>, settings: &Settings) -> Self {
        Self {
            app,
            inputs: settings.unlock_inputs().for_server(),
            ring: Arc::default(),
            changes: Mutex::default(),
            entered_shares: std::sync::Mutex::default(),
            pending_rotation: std::sync::Mutex::default(),
            last_rotation: std::sync::Mutex::default(),
            health: UnlockHealth::default(),
            has_legacy_key: AtomicBool::default(),
            sealed_cause: std::sync::Mutex::default(),
            sealed: Notify::new(),
            new_key_entered: Notify::new(),
        }
    }

    /// Opens the vault with the methods that need no people.
    /// Errors: the store is unavailable, or no method returns the vault key.
    pub async fn open(&self) -> anyhow::Result<()> {
        let records = self.app.vault.store.load_directory().await?;
        let opened = open_vault_key(&self.inputs, &records).await?;
        let unsealed = self.unseal(records, opened).await;
        unsealed.map_err(UnsealError::explain)
    }

    /// Opens the directory with the vault key, and serves it. Does nothing if the vault is open.
    pub(crate) async fn unseal(
        &self,
        records: DirectoryRecords,
        opened: OpenedKey,
    ) -> Result<(), UnsealError> {
        let _guard = self.changes.lock().await;
        if self.app.directory.load().is_some() {
            return Ok(());
        }
        let OpenedKey { key, method } = opened;
        self.has_legacy_key.store(method.is_none(), Ordering::Relaxed);
        let unlocks = records.unlocks.clone();
        let directory = Directory::open(records, &key, None).map_err(UnsealError::Keys)?;
        let continuity = self.check_continuity(directory.audit_key());
        continuity.map_err(|it| UnsealError::Keys(Error::Internal(it.to_string().into())))?;
        for method in altered_methods(&unlocks, directory.audit_key()) {
            tracing::error!(
                %method,
                "an unlock method was altered outside the vault; remove it: scrip keys remove"
            );
        }
        directory.check_servable().map_err(UnsealError::Rotation)?;
        self.app.start_clock(&directory).await.map_err(UnsealError::Store)?;
        self.ring.replace(key);
        let source: Arc<dyn KeySource> = Arc::<VaultKeyRing>::clone(&self.ring);
        self.app.unseal(directory, source);
        if let Some(method) = method {
            self.record(&format!("unlock by {method}"), "completed").await;
        }
        Ok(())
    }

    /// Forgets the keys, and rejects all requests until a method returns the vault key again.
    pub(crate) fn seal(&self) {
        self.app.health.sealed_by.replace(Some(NotReadyReason::UnlockUnavailable));
        self.app.directory.store(None);
        self.ring.clear();
        // They have keys of the vault, too.
        drop(self.pending_rotation.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.entered_shares.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.sealed.notify_one();
    }

    /// Why the vault is sealed; `None` while it is open.
    pub(crate) fn sealed_cause(&self) -> Option<String> {
        let cause = self.sealed_cause.lock().unwrap_or_else(PoisonError::into_inner);
        cause.clone().filter(|_| self.app.is_sealed())
    }

    pub(crate) fn set_sealed_cause(&self, cause: Option<String>) {
        *self.sealed_cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    /// Loads the unlock methods of the open vault.
    pub(crate) async fn open_vault(&self) -> anyhow::Result<OpenVault> {
        let unlocks = self.load_unlocks().await?;
        let directory = self.app.directory.load_full();
        let (Some(key), Some(directory)) = (self.ring.current(), directory) else {
            bail!("the vault is sealed; unlock it first");
        };
        let identity = unlocks.identity.context(
            "this vault has no unlock methods: the root key is its vault key. Run first: scrip \
             keys adopt",
        )?;
        if identity.key_version != key.version() {
            bail!("another node rotated the vault key; try again in some seconds");
        }
        let audit_key = Arc::clone(directory.audit_key());
        Ok(OpenVault { identity, unlocks, key, audit_key })
    }

    pub(crate) async fn load_unlocks(&self) -> anyhow::Result<VaultUnlocks> {
        Ok(self.app.vault.store.load_unlocks().await?)
    }

    /// Gets the new vault key after another node has rotated it, so that this node can load changes
    /// of the directory again.
    pub(crate) async fn follow_rotation(&self) -> anyhow::Result<()> {
        if self.ring.current().is_none() || !self.lacks_new_key(&self.load_unlocks().await?) {
            return Ok(());
        }
        let records = self.app.vault.store.load_directory().await?;
        let opened = open_vault_key(&self.inputs, &records).await?;
        self.load_new_key(&records, opened.key).await
    }

    /// Whether another node has rotated the vault key, and this node has the old one.
    pub(crate) fn lacks_new_key(&self, unlocks: &VaultUnlocks) -> bool {
        self.ring.current().is_some_and(|it| it.version() < unlocks.key_version())
    }

    /// Uses the new vault key, and loads the directory with it. Does nothing if this node has a new
    /// key already.
    pub(crate) async fn load_new_key(
        &self,
        records: &DirectoryRecords,
        key: VaultKey,
    ) -> anyhow::Result<()> {
        let _guard = self.changes.lock().await;
        if !self.lacks_new_key(&records.unlocks) {
            return Ok(());
        }
        // Otherwise the replaced rows of another vault would be served, and new keys would be
        // wrapped with its key.
        if let Some(system_keys) = &records.system_keys {
            let audit_key = AuditKey::unwrap(&key, &system_keys.audit_key)?;
            self.check_continuity(&audit_key)?;
        }
        tracing::info!(version = key.version(), "another node rotated the vault key");
        self.ring.replace(key);
        let reloaded = self.app.reload_with_mode(ReloadMode::Always).await;
        reloaded.map_err(|it| anyhow::Error::msg(it.cause.cause_text()))
    }

    /// Fails if this process has opened another vault before, or a newer state of this one.
    fn check_continuity(&self, audit_key: &AuditKey) -> anyhow::Result<()> {
        match self.app.vault.audit_trail.key() {
            Some(known) if !audit_key.continues(known) => bail!(REPLACED_KEYS),
            Some(_) | None => Ok(()),
        }
    }

    /// Records a step in the chain of the vault. The step was made, so a failure is only logged.
    pub(crate) async fn record(&self, command: &str, outcome: &'static str) {
        if let Err(error) = self.app.vault.record_command(command, outcome).await {
            let cause = error.cause_text();
            tracing::error!(cause, command, "a step of the key management is not recorded");
        }
    }

    /// Records the start of a change. Without the record, the change is not made.
    pub(crate) async fn record_start(&self, command: &str) -> anyhow::Result<()> {
        let recorded = self.app.vault.record_command(command, "started").await;
        recorded
            .map_err(|it| anyhow::Error::msg(it.cause_text()))
            .context("the command cannot be recorded in the audit log and was not run")
    }

    /// Records the end of a change.
    pub(crate) async fn record_end<T>(
        &self,
        command: &str,
        result: anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.record(command, if result.is_ok() { "completed" } else { "aborted" }).await;
        result
    }
}

/// The results of the last checks, by method.
#[derive(Debug, Default)]
pub struct UnlockHealth(std::sync::Mutex<BTreeMap<String, bool>>);

impl UnlockHealth {
    pub fn is_working(&self, method: &str) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(method).copied()
    }

    /// The checked methods, for metrics.
    pub fn results(&self) -> Vec<(String, bool)> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().map(|(method, is_working)| (method.clone(), *is_working)).collect()
    }

    /// Stores a result. Returns the one before.
    pub(super) fn set(&self, method: String, is_working: bool) -> Option<bool> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(method, is_working)
    }

    /// Forgets methods that another node has removed.
    pub(super) fn retain(&self, is_present: impl Fn(&str) -> bool) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|method, _| is_present(method));
    }

    pub(crate) fn forget(&self, method: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(method);
    }
}

/// A rotation that waits until the holders of the new shares have entered them.
#[derive(Debug)]
pub(crate) struct PendingRotation {
    /// Only the command that started the rotation knows it.
    pub(super) id: String,
    /// The operator who started it.
    pub(super) uid: u32,
    pub(super) identity: VaultIdentity,
    pub(super) new_key: Arc<VaultKey>,
    pub(super) replaced: Vec<UnlockId>,
    pub(super) methods: Vec<UnlockRecord>,
    /// The row that the new shares open; `None` for a vault without shares.
    pub(super) shared: Option<UnlockRecord>,
    /// The other new keys after a compromise.
    pub(super) renewal: Option<KeyRenewal>,
    pub(super) started: Duration,
}
