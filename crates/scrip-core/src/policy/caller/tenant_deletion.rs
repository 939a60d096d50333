//! The proof that a tenant may be deleted.

use crate::{
    Error, Timestamp,
    policy::{PolicyPermit, PolicyRecords, Quotas},
    types::id::TenantId,
};

/// Proof that a tenant may be deleted.
#[derive(Debug)]
pub enum TenantDeletion {
    Requested(PolicyPermit),
    /// The grace period of the tenant is over.
    Due {
        permit: PolicyPermit,
        due_at: Timestamp,
    },
    /// By the operator. Also works for a tenant that cannot be loaded, because deletion trusts none
    /// of its rows. Without quotas, the vault stores the tenant's logs permanently.
    ByOperator {
        tenant: TenantId,
        quotas: Option<Quotas>,
    },
}

impl TenantDeletion {
    pub fn tenant(&self) -> TenantId {
        match self {
            Self::Requested(permit) | Self::Due { permit, .. } => permit.tenant().id,
            Self::ByOperator { tenant, .. } => *tenant,
        }
    }

    /// How long the vault stores the logs of the deleted tenant; `None` is permanently.
    pub fn retention_seconds(&self) -> Option<i64> {
        let quotas = match self {
            Self::Requested(permit) | Self::Due { permit, .. } => Some(&permit.tenant().quotas),
            Self::ByOperator { quotas, .. } => quotas.as_ref(),
        };
        quotas.and_then(|it| i64::try_from(it.log_retention_seconds).ok())
    }

    /// Whether the policy must be checked before the deletion.
    pub fn requires_policy_check(&self) -> bool {
        match self {
            Self::Requested(_) | Self::Due { .. } => true,
            Self::ByOperator { .. } => false,
        }
    }

    /// Checks the deletion inside the transaction, on the current policy.
    /// Errors: the policy was altered or rolled back, or the caller no longer has the permission.
    pub fn check(&self, records: &PolicyRecords) -> Result<(), Error> {
        match self {
            Self::ByOperator { .. } => Ok(()),
            Self::Requested(permit) => permit.check(records),
            Self::Due { permit, due_at } => {
                permit.check(records)?;
                let is_due = records.tenant.record.deletes_at.is_some_and(|it| it <= *due_at);
                is_due.then_some(()).ok_or(Error::NotFound)
            }
        }
    }
}
