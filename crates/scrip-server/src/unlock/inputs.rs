//! The part of the settings that unlock methods need.

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use scrip_api::app::readiness::NotReadyReason;
use scrip_seal::{RootKey, Secret, VaultKey};
use scrip_unlock::{PinAttempts, Pkcs11};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    config::{
        Settings,
        keys::{AllowedSources, UnlockOrder},
    },
    files::secret_file::{AllowedReaders, SecretFile, SecretFileCause},
};

/// The part of the settings that unlock methods need.
#[derive(Debug, Clone)]
pub struct UnlockInputs {
    /// From `SCRIP_ROOT_KEY`; overrides the root key file.
    pub(super) root_key: Option<Arc<Secret>>,
    pub(super) root_key_file: PathBuf,
    /// From variables `SCRIP_UNLOCK_…` and those of AWS, by variable.
    pub(super) unlock_keys: BTreeMap<String, Arc<Secret>>,
    pub(super) order: UnlockOrder,
    pub(super) allowed_sources: AllowedSources,
    /// Sources of devices, which remember rejected PINs.
    pub(super) devices: Arc<Mutex<Vec<KnownDevice>>>,
    pub(super) pin_attempts: PinAttempts,
}

/// The source of a device, with the PIN that it uses.
#[derive(Debug)]
pub(super) struct KnownDevice {
    pub(super) parameters: Map<String, Value>,
    pub(super) pin: Secret,
    pub(super) source: Arc<Pkcs11>,
}

impl Settings {
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
}

impl UnlockInputs {
    /// The inputs of a server, which tries a PIN again after the operator has corrected it.
    pub(crate) fn for_server(self) -> Self {
        Self { pin_attempts: PinAttempts::OncePerSource, ..self }
    }

    /// Reads the root key of a vault without unlock methods. Never creates one.
    /// Errors: the key is missing, malformed, or readable by other users.
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
        let text = secret_file.read_key().map_err(|it| match it.cause {
            SecretFileCause::Rejected(cause) => {
                denied(unusable(&format!("{}: {cause:#}", secret_file.setting)))
            }
            SecretFileCause::Unreadable(cause) => missing(unusable(&cause)),
        })?;
        let key = RootKey::from_text(&text).map_err(|it| missing(unusable(&it)))?;
        Ok(key.into_vault_key())
    }
}

/// Why no method returned the vault key.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct UnlockProblem {
    pub reason: NotReadyReason,
    /// A key was returned, but it is not the key of this vault.
    pub is_wrong_key: bool,
    pub(super) text: String,
}

impl UnlockProblem {
    pub(crate) fn new(reason: NotReadyReason, text: impl Into<String>) -> Self {
        Self { reason, is_wrong_key: false, text: text.into() }
    }

    pub(super) fn wrong_key(reason: NotReadyReason, text: impl Into<String>) -> Self {
        Self { reason, is_wrong_key: true, text: text.into() }
    }
}
