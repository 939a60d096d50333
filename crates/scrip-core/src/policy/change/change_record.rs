//! The writes of a policy change, decided inside the transaction.

use scrip_seal::AuditKey;

use crate::{
    audit::{AuditRecord, DeletedTenant},
    error::Error,
    policy::{PolicyAlteration, PolicyRecords, PolicySeal, PolicyWrite},
    store::CommitExtras,
};

/// Decides a policy change inside the transaction, on the current policy of a tenant.
pub type DecidePolicy = Box<dyn FnOnce(PolicyRecords) -> Result<PolicyEdit, Error> + Send>;

/// The writes of a policy change and the new seal.
#[derive(Debug)]
pub struct PolicyEdit {
    pub writes: Vec<PolicyWrite>,
    pub seal: PolicySeal,
    pub extras: CommitExtras,
    /// Versions of the sealing key that the row of the tenant no longer names.
    pub destroyed_versions: Vec<u32>,
}

/// Decides inside the transaction how the policy of a tenant is restored.
pub type DecidePolicyRestore = Box<dyn FnOnce(StoredPolicy) -> Result<PolicyRestore, Error> + Send>;

/// The stored policy of a tenant, altered or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPolicy {
    /// `None` if the row of the tenant is missing or cannot be read.
    pub records: Option<PolicyRecords>,
    /// Rows of the tenant that cannot be parsed.
    pub unreadable: Vec<PolicyAlteration>,
    /// Rows of the tenant in the list of deleted tenants. Their MACs are not checked yet.
    pub deletions: Vec<DeletedTenant>,
}

impl StoredPolicy {
    /// Whether the list of deleted tenants has an authentic row of the tenant.
    #[must_use]
    pub fn is_listed_as_deleted(&self, key: &AuditKey) -> bool {
        self.deletions.iter().any(|it| it.has_valid_mac(key))
    }
}

/// The rows that replace the stored policy of a tenant.
#[derive(Debug)]
pub struct PolicyRestore {
    pub records: PolicyRecords,
    /// Whether the wrapped keys of the tenant are replaced too.
    pub replaces_keys: bool,
    pub audit: AuditRecord,
}
