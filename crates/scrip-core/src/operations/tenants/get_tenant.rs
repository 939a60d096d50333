//! Get Tenant, and what it may use.

use crate::{
    Error, Vault,
    audit::Operation,
    policy::{Mandate, Quotas, Tenant},
};

/// # Errors
/// The read cannot be recorded.
pub async fn get_tenant<'a>(vault: &Vault, mandate: &'a Mandate) -> Result<&'a Tenant, Error> {
    let tenant = mandate.tenant();
    vault.record_read(mandate, Operation::GetTenant, tenant.id.to_string()).await?;
    Ok(tenant)
}

/// # Errors
/// The read cannot be recorded.
pub async fn get_tenant_quotas<'a>(
    vault: &Vault,
    mandate: &'a Mandate,
) -> Result<&'a Quotas, Error> {
    let tenant = mandate.tenant();
    vault.record_read(mandate, Operation::GetTenantQuotas, tenant.id.to_string()).await?;
    Ok(&tenant.quotas)
}
