//! Get Tenant Usage: the number of tokens, and of tokens active in this month.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    store::TenantUsage,
    types::{Operation, time::Month},
};

/// Errors: the store is unavailable, or the read cannot be recorded.
pub async fn get_tenant_usage(vault: &Vault, permit: &PolicyPermit) -> Result<TenantUsage, Error> {
    let month = Month::from_timestamp(vault.clock.now());
    let usage = vault.store.find_usage(permit, month).await?;
    let tenant = permit.tenant().id.to_string();
    vault.record_policy_read(permit, Operation::GetTenantUsage, tenant).await?;
    Ok(usage)
}
