//! All policies and the keys of the vault, as the store keeps them.

use scrip_seal::Sealed;

use crate::policy::{PolicyAlteration, PolicyRecords};

/// What the store keeps of it.
#[derive(Debug, Clone, Default)]
pub struct DirectoryRecords {
    pub version: i64,
    /// Nothing in a vault that was never founded.
    pub system_keys: Option<SystemKeys>,
    pub tenants: Vec<PolicyRecords>,
    /// Rows that nothing we wrote looks like.
    pub unreadable: Vec<PolicyAlteration>,
}

/// The vault's own keys, wrapped. Made with it, both at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemKeys {
    pub pepper: Sealed,
    pub audit_key: Sealed,
}
