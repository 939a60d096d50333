//! Delete Tenant: its keys go in the same step, so nothing of it opens afterwards.

use crate::{
    Vault,
    audit::{AuditRecord, Operation},
    caller::{Mandate, TenantDeletion},
    error::Error,
    id::TenantId,
    quota::Quotas,
    store::Changed,
};

/// # Errors
/// The tenant is gone.
pub async fn delete_tenant(vault: &Vault, mandate: Mandate) -> Result<(), Error> {
    let audit = AuditRecord::of(Operation::DeleteTenant, &mandate, vault.clock.now());
    delete(vault, TenantDeletion::Asked(mandate), audit).await
}

/// By the operator, whatever became of its policy.
///
/// # Errors
/// The tenant is gone.
pub async fn delete_tenant_by_id(
    vault: &Vault,
    tenant: TenantId,
    quotas: Option<Quotas>,
) -> Result<(), Error> {
    let audit = vault.audit.of_operator(Operation::DeleteTenant, vault.clock.now())?;
    delete(vault, TenantDeletion::ByOperator { tenant, quotas }, audit).await
}

async fn delete(vault: &Vault, deletion: TenantDeletion, audit: AuditRecord) -> Result<(), Error> {
    match vault.store.delete_tenant(deletion, audit).await?? {
        Changed::Done => Ok(()),
        Changed::Stale => Err(Error::NotFound),
    }
}
