//! Create Tenant: an operator's act, so no caller has to be permitted.

use scrip_seal::{KeySource, Pepper, TenantKeys};

use crate::{
    Vault,
    application::Name,
    audit::{AuditRecord, Operation},
    error::Error,
    id::{TenantId, random_uuid},
    policy::{PolicyRecords, Stamp},
    quota::Quotas,
    tenant::{Settings, TenantKind, TenantRecord},
};

/// A new vault's pepper, before the first tenant. Does nothing when there is one.
///
/// # Errors
/// The store or the key source did not answer.
pub async fn found_vault(vault: &Vault, source: &dyn KeySource) -> Result<(), Error> {
    if vault.store.load_directory().await?.pepper.is_none() {
        let (_, wrapped) = Pepper::create(source)?;
        vault.store.insert_pepper(wrapped).await?;
    }
    Ok(())
}

/// # Errors
/// The store or the key source did not answer.
pub async fn create_tenant(
    vault: &Vault,
    source: &dyn KeySource,
    name: Name,
    kind: TenantKind,
    settings: Settings,
) -> Result<TenantId, Error> {
    let (id, now) = (TenantId(random_uuid(vault.chance)), vault.clock.now());
    let wrapped = TenantKeys::create(source, &id.to_string())?;
    let keys = TenantKeys::unwrap(source, &id.to_string(), &wrapped)?;
    let tenant = TenantRecord {
        id,
        name,
        kind,
        settings,
        quotas: Quotas::default_for(kind),
        keys: wrapped,
        created: Stamp { by: None, at: now },
        modified: None,
    };
    let audit = AuditRecord::of_operator(Operation::CreateTenant, now);
    vault.store.insert_tenant(PolicyRecords::new(&keys, tenant), audit).await?;
    Ok(id)
}
