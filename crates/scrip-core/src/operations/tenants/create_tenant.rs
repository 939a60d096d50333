//! Create Tenant: an operator's act, so no caller has to be permitted.

use std::sync::Arc;

use scrip_seal::{AuditKey, KeySource, Pepper, TenantKeys};

use crate::{
    Error, Vault,
    audit::{Log, Operation, Seen},
    id::{TenantId, random_uuid},
    policy::{Name, PolicyRecords, Quotas, Settings, Stamp, SystemKeys, TenantKind, TenantRecord},
};

/// A new vault's own keys, before the first tenant; those that are there stay. Opens the trail.
///
/// # Errors
/// The store or the key source did not answer.
pub async fn found_vault(vault: &Vault, source: &dyn KeySource) -> Result<(), Error> {
    let audit_key = match vault.store.load_directory().await?.system_keys {
        Some(keys) => AuditKey::unwrap(source, &keys.audit_key)?,
        None => {
            let ((_, pepper), (made, audit_key)) =
                (Pepper::create(source)?, AuditKey::create(source)?);
            vault.store.insert_system_keys(SystemKeys { pepper, audit_key }).await?;
            made
        }
    };
    vault.audit.open(&Arc::new(audit_key));
    Ok(())
}

/// Begins the vault's own chain of records, if there is none.
///
/// # Errors
/// The store did not answer.
pub async fn begin_vault_chain(vault: &Vault) -> Result<(), Error> {
    let heads = vault.store.list_heads(Log::Access).await?;
    if heads.iter().any(|it| it.tenant == TenantId::VAULT) {
        return Ok(());
    }
    vault.record_of_vault(Operation::CreateVault, Seen::new("", "created")).await
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
        deletes_at: None,
    };
    let audit = vault.audit.of_operator(Operation::CreateTenant, now)?;
    vault.store.insert_tenant(PolicyRecords::new(&keys, tenant), audit).await?;
    Ok(id)
}
