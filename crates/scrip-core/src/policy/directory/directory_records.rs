//! All stored policies and the wrapped keys of the vault.

use scrip_seal::Sealed;

use crate::policy::{PolicyAlteration, PolicyRecords, directory::unlock_record::VaultUnlocks};

/// The stored directory.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRecords {
    pub version: i64,
    /// `None` in a vault that was never initialized.
    pub system_keys: Option<SystemKeys>,
    /// How the vault key is unlocked.
    pub unlocks: VaultUnlocks,
    pub tenants: Vec<PolicyRecords>,
    /// Rows that cannot be parsed, so the vault did not write them.
    pub unreadable: Vec<PolicyAlteration>,
}

/// The wrapped system keys of the vault. Both are created when the vault is initialized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemKeys {
    pub pepper: Sealed,
    pub audit_key: Sealed,
}
