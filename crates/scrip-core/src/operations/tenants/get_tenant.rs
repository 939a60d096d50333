//! Get Tenant, and its quotas.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, Quotas, Tenant},
    types::Operation,
};

/// Errors: the read cannot be recorded.
pub async fn get_tenant<'a>(vault: &Vault, permit: &'a PolicyPermit) -> Result<&'a Tenant, Error> {
    let tenant = permit.tenant();
    vault.record_policy_read(permit, Operation::GetTenant, tenant.id.to_string()).await?;
    Ok(tenant)
}

/// Errors: the read cannot be recorded.
pub async fn get_tenant_quotas<'a>(
    vault: &Vault,
    permit: &'a PolicyPermit,
) -> Result<&'a Quotas, Error> {
    let tenant = permit.tenant();
    vault.record_policy_read(permit, Operation::GetTenantQuotas, tenant.id.to_string()).await?;
    Ok(&tenant.quotas)
}
