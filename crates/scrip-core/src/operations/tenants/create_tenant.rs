//! Create Tenant: an operator's command, so it needs no permit of a caller.

use std::sync::Arc;

use scrip_seal::{AuditKey, KeySource, Pepper, TenantKeys, VaultKey};

use crate::{
    Error, Vault,
    audit::LogKind,
    policy::{
        ChangeStamp, DisplayName, PolicyRecords, Quotas, SystemKeys, TenantRecord, TenantSettings,
    },
    read_log::ReadLogEntry,
    types::{
        Operation, TenantKind,
        id::{TenantId, random_uuid},
    },
    unlock::{UnlockRecord, VaultIdentity},
};

/// Creates the system keys of a new vault, before the first tenant; existing keys do not change.
/// Sets the key of the audit trail.
pub async fn initialize_vault_keys(vault: &Vault, source: &dyn KeySource) -> Result<(), Error> {
    let audit_key = match vault.store.load_directory().await?.system_keys {
        Some(keys) => AuditKey::unwrap(source, &keys.audit_key)?,
        None => {
            let ((_, pepper), (opened_key, audit_key)) =
                (Pepper::create(source)?, AuditKey::create(source)?);
            vault.store.insert_system_keys(SystemKeys { pepper, audit_key }).await?;
            opened_key
        }
    };
    vault.audit_trail.set_key(&Arc::new(audit_key));
    Ok(())
}

/// Creates the system keys of an empty vault and its first unlock method, in one transaction. Sets
/// the key of the audit trail.
/// Errors: the vault has keys, or the store is unavailable.
pub async fn initialize_vault(
    vault: &Vault,
    key: &VaultKey,
    identity: VaultIdentity,
    method: UnlockRecord,
) -> Result<(), Error> {
    let ((_, pepper), (opened_key, audit_key)) = (Pepper::create(key)?, AuditKey::create(key)?);
    let method = method.signed(&opened_key, identity.id);
    vault.store.insert_vault(SystemKeys { pepper, audit_key }, identity, method).await?;
    vault.audit_trail.set_key(&Arc::new(opened_key));
    Ok(())
}

/// Creates the vault's own chain of records, if there is none.
pub async fn create_vault_chain(vault: &Vault) -> Result<(), Error> {
    let heads = vault.store.list_heads(LogKind::Read).await?;
    if heads.iter().any(|it| it.tenant == TenantId::VAULT) {
        return Ok(());
    }
    vault.record_in_vault_chain(Operation::CreateVault, ReadLogEntry::new("", "created")).await
}

pub async fn create_tenant(
    vault: &Vault,
    source: &dyn KeySource,
    name: DisplayName,
    kind: TenantKind,
    settings: TenantSettings,
) -> Result<TenantId, Error> {
    let (id, now) = (TenantId(random_uuid(vault.fill_random)), vault.clock.now());
    let wrapped = TenantKeys::create(source, &id.to_string())?;
    let keys = TenantKeys::unwrap(source, &id.to_string(), &wrapped)?;
    let tenant = TenantRecord {
        id,
        name,
        kind,
        settings,
        quotas: Quotas::default_for(kind),
        keys: wrapped,
        created: ChangeStamp { by: None, at: now },
        modified: None,
        deletes_at: None,
    };
    let audit = vault.audit_trail.record_for_operator(Operation::CreateTenant, now)?;
    vault.store.insert_tenant(PolicyRecords::new(&keys, tenant), audit).await?;
    Ok(id)
}
