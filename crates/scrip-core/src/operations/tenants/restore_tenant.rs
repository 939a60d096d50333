//! Restore Tenant: reverts a deletion during its grace period. An operator's command.

use crate::{
    Error, Vault,
    operations::tenants::update_tenant::rewrite_tenant,
    policy::{PolicyPermit, PolicyRecords, TenantRecord},
    types::Operation,
};

/// Errors: the keys of the tenant are already destroyed.
pub async fn restore_tenant(vault: &Vault, permit: PolicyPermit) -> Result<TenantRecord, Error> {
    let clear_deletion = |_: &PolicyRecords, record: &mut TenantRecord| {
        record.deletes_at = None;
        Ok(())
    };
    rewrite_tenant(vault, permit, Operation::RestoreTenant, None, clear_deletion).await
}
