//! Unlock methods: how a server or a command gets the vault key.

pub mod compromise;
pub mod create;
pub mod factory;
pub mod health;
mod local_key;
pub mod manager;
mod manager_state;
pub mod methods;
pub mod open;
pub mod rotation;
mod services;
pub mod shares;
pub mod unlock_settings;

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::policy::DirectoryRecords;
use scrip_seal::{RootKey, Secret, VaultKey, VaultKeyRing};
use scrip_unlock::PinAttempts;

use crate::{
    config::{
        Settings,
        keys::{AllowedSources, UnlockOrder},
    },
    files::secret_file::{AllowedReaders, SecretFile},
    storage::unlock::{
        open::{OpenedKey, UnlockProblem, open_vault_key},
        services::KnownDevice,
    },
};

/// The part of the settings that unlock methods need.
#[derive(Debug, Clone)]
pub struct UnlockInputs {
    /// From `SCRIP_ROOT_KEY`; overrides the root key file.
    root_key: Option<Arc<Secret>>,
    root_key_file: PathBuf,
    /// From variables `SCRIP_UNLOCK_…` and those of AWS, by variable.
    unlock_keys: BTreeMap<String, Arc<Secret>>,
    order: UnlockOrder,
    allowed_sources: AllowedSources,
    /// Sources of devices, which remember rejected PINs.
    devices: Arc<Mutex<Vec<KnownDevice>>>,
    pin_attempts: PinAttempts,
}

const ONLY_SHARES: &str = "this vault opens only with shares, and a command cannot use shares. Add \
    a key file for the time of the command, while the server runs and its vault is open: scrip keys \
    add file FILE, and afterwards: scrip keys remove ID";

impl Settings {
    #[must_use]
    pub fn unlock_inputs(&self) -> UnlockInputs {
        UnlockInputs {
            root_key: self.root_key.clone(),
            root_key_file: self.root_key_file(),
            unlock_keys: self.unlock_keys.clone(),
            order: self.keys.unlock_order.clone(),
            allowed_sources: self.keys.unlock_sources.clone(),
            devices: Arc::default(),
            pin_attempts: PinAttempts::WithoutEarlierFailure,
        }
    }

    /// Opens the vault key by the stored unlock methods, or by the root key if there are none.
    ///
    /// # Errors
    /// No method returns the vault key.
    pub async fn unlock(
        &self,
        records: &DirectoryRecords,
    ) -> Result<Arc<VaultKeyRing>, UnlockProblem> {
        if records.system_keys.is_some() && records.unlocks.needs_people() {
            return Err(UnlockProblem::new(NotReadyReason::Shares, ONLY_SHARES));
        }
        let OpenedKey { key, .. } = open_vault_key(&self.unlock_inputs(), records).await?;
        Ok(Arc::new(VaultKeyRing::new(key)))
    }

    /// Checks that the root key can be read: the vault key of a vault without unlock methods, and
    /// the wrapping key of the default method.
    ///
    /// # Errors
    /// The key is missing, malformed, or readable by other users.
    pub fn check_root_key(&self) -> anyhow::Result<()> {
        Ok(self.unlock_inputs().legacy_key().map(drop)?)
    }
}

impl UnlockInputs {
    /// The inputs of a server, which tries a PIN again after the operator has corrected it.
    pub(crate) fn for_server(self) -> Self {
        Self { pin_attempts: PinAttempts::OncePerSource, ..self }
    }

    /// Reads the root key of a vault without unlock methods. Never creates one.
    ///
    /// # Errors
    /// The key is missing, malformed, or readable by other users.
    pub(crate) fn legacy_key(&self) -> Result<VaultKey, UnlockProblem> {
        let missing = |text| UnlockProblem::new(NotReadyReason::RootKey, text);
        if let Some(text) = &self.root_key {
            let text = str::from_utf8(text.expose()).unwrap_or_default();
            let key = RootKey::from_text(text)
                .map_err(|it| missing(format!("SCRIP_ROOT_KEY cannot be used: {it}")))?;
            return Ok(key.into_vault_key());
        }
        let file = &self.root_key_file;
        let unusable =
            |it: &dyn Display| format!("the root key {} cannot be used: {it}", file.display());
        let secret_file = SecretFile::new("keys.root_key_file", file, AllowedReaders::Owner);
        let denied = |text| UnlockProblem::new(NotReadyReason::UnlockDenied, text);
        secret_file.check().map_err(|it| denied(unusable(&format!("{it:#}"))))?;
        let key = RootKey::from_file(file).map_err(|it| missing(unusable(&it)))?;
        Ok(key.into_vault_key())
    }
}
