//! All stored policies and the wrapped keys of the vault.

use scrip_seal::Sealed;

use crate::{
    policy::{PolicyAlteration, PolicyRecords},
    unlock::VaultUnlocks,
};

/// The stored directory.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRecords {
    pub version: i64,
    /// `None` in a vault that was never initialized, or after its keys were deleted.
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

/// The message about storage without a vault.
pub const EMPTY_VAULT: &str = "the vault is empty; for a new vault run: scrip init; for a moved vault run: \
     scrip import FILE";
const LOST_KEYS: &str = "the keys of this vault are missing, but it has tenants: they were deleted or damaged; restore a \
     backup";

impl DirectoryRecords {
    /// Whether the keys of a vault with tenants are missing. New keys would not open its data.
    pub fn has_lost_keys(&self) -> bool {
        self.system_keys.is_none() && !(self.tenants.is_empty() && self.unreadable.is_empty())
    }

    /// Whether the storage has no vault yet.
    pub fn is_empty_vault(&self) -> bool {
        self.system_keys.is_none() && !self.has_lost_keys()
    }

    /// The message about missing keys.
    pub fn missing_keys_text(&self) -> &'static str {
        if self.has_lost_keys() { LOST_KEYS } else { EMPTY_VAULT }
    }
}
