//! Unlock methods: how a server or a command gets the vault key.

pub mod compromise;
pub mod create;
pub mod factory;
pub mod health;
pub mod inputs;
mod local_key;
pub mod manager;
mod manager_state;
pub mod methods;
pub mod open;
pub mod problem;
pub mod rotation;
mod services;
pub mod shares;
pub mod unlock_settings;

use std::sync::Arc;

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::policy::DirectoryRecords;
use scrip_seal::VaultKeyRing;

use crate::{
    config::Settings,
    unlock::{
        open::{OpenedKey, open_vault_key},
        problem::UnlockProblem,
    },
};

const ONLY_SHARES: &str = "this vault opens only with shares, and a command cannot use shares. Add \
    a key file for the time of the command, while the server runs and its vault is open: scrip keys \
    add file FILE, and afterwards: scrip keys remove ID";

impl Settings {
    /// Opens the vault key by the stored unlock methods, or by the root key if there are none.
    /// Errors: no method returns the vault key.
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
    /// Errors: the key is missing, malformed, or readable by other users.
    pub fn check_root_key(&self) -> anyhow::Result<()> {
        Ok(self.unlock_inputs().legacy_key().map(drop)?)
    }
}
