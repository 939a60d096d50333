//! Delete Tenant: its API keys stop working immediately.
//!
//! Its encryption keys are destroyed after the grace period of its quotas; after that, its data
//! cannot be decrypted. Without a grace period, the keys are destroyed in the same step.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    change::ChangeOutcome,
    operations::tenants::update_tenant::rewrite_tenant,
    policy::{Directory, PolicyPermit, PolicyRecords, Quotas, TenantDeletion, TenantRecord},
    types::{Operation, id::TenantId},
};

/// Deletes a tenant. Returns the end of the grace period; `None` when the keys are already
/// destroyed.
/// Errors: the tenant does not exist.
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
    let set_deletion = move |_: &PolicyRecords, record: &mut TenantRecord| {
        record.deletes_at = Some(deletes_at);
        Ok(())
    };
    rewrite_tenant(vault, permit, Operation::DeleteTenant, None, set_deletion).await?;
    Ok(Some(deletes_at))
}

/// Destroys the keys of tenants after their grace period; returns the number of tenants.
pub async fn destroy_due_tenants(vault: &Vault, directory: &Directory) -> Result<usize, Error> {
    let mut destroyed_count = 0_usize;
    if directory.pending_deletion().is_empty() {
        return Ok(destroyed_count);
    }
    let due_at = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    for tenant in directory.pending_deletion() {
        if tenant.deletes_at.is_none_or(|it| due_at < it) {
            continue;
        }
        let now = vault.clock.now();
        let audit = AuditRecord::for_vault(Operation::DeleteTenant, directory.audit_key(), now);
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        match delete_in_store(vault, TenantDeletion::Due { permit, due_at }, audit).await {
            Ok(()) => destroyed_count = destroyed_count.saturating_add(1),
            // Another node destroyed the keys first, or the tenant was restored.
            Err(Error::NotFound) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(destroyed_count)
}

/// Deletes a tenant by the operator's command, without a grace period. The policy may be altered.
/// Errors: the tenant does not exist.
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
