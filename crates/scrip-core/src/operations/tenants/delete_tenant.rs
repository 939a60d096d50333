//! Delete Tenant: its API keys stop at once. Its own keys are destroyed when the grace period of its
//! quotas ends, and nothing of it opens afterwards; without a grace period, in the same step.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::TenantId,
    operations::tenants::update_tenant::rewrite_tenant,
    policy::{Directory, PolicyPermit, Quotas, TenantDeletion, TenantRecord},
    store::ChangeOutcome,
};

/// Until when the tenant can be restored; nothing when its keys are destroyed already.
///
/// # Errors
/// The tenant is gone.
pub async fn delete_tenant(
    vault: &Vault,
    permit: PolicyPermit,
) -> Result<Option<Timestamp>, Error> {
    let grace = permit.tenant().quotas.deletion_grace();
    if grace.is_zero() {
        let audit = AuditRecord::for_policy(Operation::DeleteTenant, &permit, vault.clock.now());
        return delete_in_store(vault, TenantDeletion::Requested(permit), audit)
            .await
            .map(|()| None);
    }
    let deletes_at = vault.clock.now().plus(grace);
    let delete = move |record: &mut TenantRecord| record.deletes_at = Some(deletes_at);
    rewrite_tenant(vault, permit, Operation::DeleteTenant, None, delete).await?;
    Ok(Some(deletes_at))
}

/// Destroys the keys of tenants whose grace period is over; how many tenants.
///
/// # Errors
/// The store did not answer.
pub async fn destroy_due_tenants(vault: &Vault, directory: &Directory) -> Result<usize, Error> {
    let mut destroyed = 0_usize;
    if directory.pending_deletion().is_empty() {
        return Ok(destroyed);
    }
    let by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    for tenant in directory.pending_deletion() {
        if tenant.deletes_at.is_none_or(|it| by < it) {
            continue;
        }
        let now = vault.clock.now();
        let audit = AuditRecord::for_vault(Operation::DeleteTenant, directory.audit_key(), now);
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        match delete_in_store(vault, TenantDeletion::Due { permit, due_at: by }, audit).await {
            Ok(()) => destroyed = destroyed.saturating_add(1),
            // Another node was first, or the tenant was restored.
            Err(Error::NotFound) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(destroyed)
}

/// By the operator, whatever became of its policy, and without a grace period.
///
/// # Errors
/// The tenant is gone.
pub async fn delete_tenant_by_id(
    vault: &Vault,
    tenant: TenantId,
    quotas: Option<Quotas>,
) -> Result<(), Error> {
    let audit =
        vault.audit_trail.record_for_operator(Operation::DeleteTenant, vault.clock.now())?;
    delete_in_store(vault, TenantDeletion::ByOperator { tenant, quotas }, audit).await
}

async fn delete_in_store(
    vault: &Vault,
    deletion: TenantDeletion,
    audit: AuditRecord,
) -> Result<(), Error> {
    match vault.store.delete_tenant(deletion, audit).await?? {
        ChangeOutcome::Done => Ok(()),
        ChangeOutcome::Stale => Err(Error::NotFound),
    }
}
