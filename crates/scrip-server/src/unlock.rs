//! Unlock methods: how a server or a command gets the vault key.

pub mod create;
pub mod factory;
pub mod health;
pub mod inputs;
mod local_key;
pub mod manager;
pub mod methods;
pub mod open;
pub mod rotation;
mod services;
pub mod shares;
pub mod unlock_settings;

use std::sync::Arc;

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::{policy::DirectoryRecords, unlock::VaultUnlocks};
use scrip_seal::VaultKeyRing;

use crate::{
    config::Settings,
    unlock::{
        inputs::UnlockProblem,
        open::{MethodName, OpenedKey, open_vault_key},
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
        Ok(self.unlock_with_method(records).await?.0)
    }

    /// As [`Settings::unlock`]. Returns the method that opened the vault, too; `None` for the root key
    /// of a vault without unlock methods.
    /// Errors: as [`Settings::unlock`].
    pub async fn unlock_with_method(
        &self,
        records: &DirectoryRecords,
    ) -> Result<(Arc<VaultKeyRing>, Option<MethodName>), UnlockProblem> {
        if records.system_keys.is_some() && records.unlocks.needs_people() {
            return Err(UnlockProblem::new(NotReadyReason::Shares, ONLY_SHARES));
        }
        let OpenedKey { key, method } = open_vault_key(&self.unlock_inputs(), records).await?;
        Ok((Arc::new(VaultKeyRing::new(key)), method))
    }

    /// Describes a root key that is present, although no unlock method of the vault uses it.
    pub fn describe_unused_root_key(&self, unlocks: &VaultUnlocks) -> Option<String> {
        let name = match (&self.root_key, self.root_key_file()) {
            (Some(_), _) => "SCRIP_ROOT_KEY".to_owned(),
            (None, file) if file.exists() => format!("the root key {}", file.display()),
            (None, _) => return None,
        };
        let is_used = unlocks.is_legacy()
            || unlocks.active_methods().any(|it| MethodName::new(it).is_root_key);
        (!is_used).then(|| format!("{name} is obsolete: no unlock method of this vault uses it"))
    }

    /// Checks that the root key can be read: the vault key of a vault without unlock methods, and
    /// the wrapping key of the default method.
    ///
    /// Errors: the key is missing, malformed, or readable by other users.
    pub fn check_root_key(&self) -> anyhow::Result<()> {
        Ok(self.unlock_inputs().legacy_key().map(drop)?)
    }
}
