//! The policy that a restoration replaces, and its replacement.

use scrip_core::policy::{PolicyRecords, Tenant};

/// The policy of a backup, and the stored rows that it replaces.
pub(super) struct PolicyReplacement<'a> {
    /// The tenant as it is in the backup.
    pub(super) tenant: &'a Tenant,
    pub(super) stored: Option<&'a PolicyRecords>,
    pub(super) replaces_keys: bool,
    pub(super) backup: &'a PolicyRecords,
}
