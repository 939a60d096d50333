//! Changes of stored entities: what an engine commits together with a write, and the records of a
//! policy change.

use scrip_seal::AuditKey;

use crate::{
    Error,
    audit::{AuditRecord, DeletedTenant},
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    policy::{PolicyAlteration, PolicyRecords, PolicySeal, PolicyWrite},
};

/// The policy of a tenant, loaded for a change.
#[derive(Debug)]
pub struct LoadedPolicy {
    pub records: PolicyRecords,
    /// Keeps other changes of this tenant waiting, so that they need not be repeated. `None` for an
    /// engine without such a lock. Correctness does not depend on it.
    pub turn: Option<Box<dyn PolicyTurn>>,
}

/// The turn of a change among the changes of one tenant in this process. It ends when it is
/// dropped.
pub trait PolicyTurn: std::fmt::Debug + Send + Sync {}

/// The writes of a policy change and the new seal: data only, so that nothing of a change is
/// parsed, compiled or sealed inside the transaction.
#[derive(Debug)]
pub struct PolicyEdit {
    /// The seal of the policy on which the change was decided. It covers every row, so an equal
    /// seal in the transaction means that no row changed since.
    pub base: PolicySeal,
    pub writes: Vec<PolicyWrite>,
    pub seal: PolicySeal,
    pub extras: CommitExtras,
    /// Versions of the sealing key that the row of the tenant no longer names.
    pub destroyed_versions: Vec<u32>,
}

/// Chooses inside the transaction how the policy of a tenant is restored.
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
    pub(crate) fn is_listed_as_deleted(&self, key: &AuditKey) -> bool {
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

/// Rows that are committed with a change of an entity that is not a token.
#[derive(Debug)]
pub struct CommitExtras {
    pub audit: AuditRecord,
    pub entity: String,
    pub idempotency: Option<IdempotencyRecord>,
    /// The deliveries of the events of the change.
    pub deliveries: Vec<NewDelivery>,
}

/// The outcome of a change of an entity that another request may have changed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOutcome {
    Done,
    /// Another request changed or deleted the entity first; nothing was written.
    Stale,
}
