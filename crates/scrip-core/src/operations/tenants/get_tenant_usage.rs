//! Get Tenant Usage: how many tokens there are, and how many of them were used this month.

use crate::{
    audit::Operation, error::Error, policy::Mandate, time::Month, token::Usage, vault::Vault,
};

/// # Errors
/// The store did not answer, or the read cannot be recorded.
pub async fn get_tenant_usage(vault: &Vault, mandate: &Mandate) -> Result<Usage, Error> {
    let month = Month::of(vault.clock.now());
    let usage = vault.store.find_usage(mandate, month).await?;
    let tenant = mandate.tenant().id.to_string();
    vault.record_read(mandate, Operation::GetTenantUsage, tenant).await?;
    Ok(usage)
}
