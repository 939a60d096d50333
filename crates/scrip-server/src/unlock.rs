//! Unlock methods: how a server or a command gets the vault key.

pub mod create;
pub mod entered_shares;
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

use std::{path::Path, sync::Arc};

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::{
    policy::DirectoryRecords,
    unlock::{UnlockRecord, VaultUnlocks},
};
use scrip_seal::VaultKeyRing;

use crate::{
    config::Settings,
    unlock::{
        inputs::UnlockProblem,
        open::{MethodName, OpenedKey, open_vault_key},
        unlock_settings::{FileParameters, UnlockSettings},
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
        let is_used =
            unlocks.is_legacy() || unlocks.active_methods().any(|it| self.uses_root_key(it));
        (!is_used).then(|| format!("{name} is obsolete: no unlock method of this vault uses it"))
    }

    /// Whether a method needs the root key of the settings: by default, or because its parameters
    /// name the same file.
    fn uses_root_key(&self, method: &UnlockRecord) -> bool {
        match UnlockSettings::from_record(method) {
            Ok(UnlockSettings::File(FileParameters { path: None })) => true,
            Ok(UnlockSettings::File(FileParameters { path: Some(path) })) => {
                self.root_key.is_none() && is_same_file(&path, &self.root_key_file())
            }
            Ok(
                UnlockSettings::Env(_) | UnlockSettings::Shamir(_) | UnlockSettings::Service(..),
            )
            | Err(_) => false,
        }
    }

    /// Checks that the root key can be read: the vault key of a vault without unlock methods, and
    /// the wrapping key of the default method.
    ///
    /// Errors: the key is missing, malformed, or readable by other users.
    pub fn check_root_key(&self) -> anyhow::Result<()> {
        Ok(self.unlock_inputs().legacy_key().map(drop)?)
    }
}

/// Whether two paths name the same file, possibly by a link.
fn is_same_file(path: &Path, other: &Path) -> bool {
    let resolved = (path.canonicalize(), other.canonicalize());
    path == other || matches!(resolved, (Ok(path), Ok(other)) if path == other)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use scrip_core::{
        Timestamp,
        types::id::{UnlockId, VaultId},
        unlock::{UnlockKind, UnlockState, VaultIdentity},
    };
    use scrip_seal::Mac;
    use uuid::Uuid;

    use super::*;
    use crate::config::load::tests::load;

    fn unlocks_with(parameters: &UnlockSettings) -> VaultUnlocks {
        let method = UnlockRecord {
            id: UnlockId(Uuid::from_u128(1)),
            kind: parameters.kind(),
            label: "disk".to_owned(),
            parameters: parameters.parameters(),
            wrapped: vec![7; 100],
            key_version: 1,
            created_at: Timestamp { unix_ms: 1_000 },
            checked_at: None,
            state: UnlockState::Active,
            mac: Mac([3; 32]),
        };
        let identity = VaultIdentity { id: VaultId(Uuid::from_u128(7)), key_version: 1 };
        VaultUnlocks { identity: Some(identity), methods: vec![method], unreadable: 0 }
    }

    #[test]
    fn root_key_file_is_obsolete_only_if_no_method_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let [key, link, other] =
            ["unlock.key", "link.key", "other.key"].map(|it| folder.path().join(it));
        for file in [&key, &other] {
            fs::write(file, "").unwrap();
        }
        symlink(&key, &link).unwrap();
        let root_key_file = key.display().to_string();
        let settings = load("", &[("SCRIP_KEYS_ROOT_KEY_FILE", root_key_file.as_str())]).unwrap();
        let file_method = |path| UnlockSettings::File(FileParameters { path });
        let service = UnlockSettings::Service(UnlockKind::Transit, serde_json::Map::new());
        for (method, is_obsolete) in [
            (file_method(None), false),
            (file_method(Some(key)), false),
            (file_method(Some(link)), false),
            (file_method(Some(other)), true),
            (file_method(Some("/missing/unlock.key".into())), true),
            (service, true),
        ] {
            let text = settings.describe_unused_root_key(&unlocks_with(&method));
            assert_eq!(text.is_some(), is_obsolete, "{method:?}: {text:?}");
        }
    }
}
