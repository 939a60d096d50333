//! Restore Tenant: takes back a deletion whose grace period has not ended. An operator's act.

use crate::{
    Error, Vault,
    audit::Operation,
    operations::tenants::update_tenant::rewrite_tenant,
    policy::{PolicyPermit, TenantRecord},
};

/// # Errors
/// The tenant's keys are destroyed already.
pub async fn restore_tenant(vault: &Vault, permit: PolicyPermit) -> Result<TenantRecord, Error> {
    let restore = |record: &mut TenantRecord| record.deletes_at = None;
    rewrite_tenant(vault, permit, Operation::RestoreTenant, None, restore).await
}
