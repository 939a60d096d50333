//! Create Tenant: an operator's act, so no caller has to be permitted.

use scrip_seal::{KeySource, Pepper, TenantKeys};

use crate::{
    Vault,
    error::Error,
    id::{TenantId, random_uuid},
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
    name: &str,
    kind: TenantKind,
    settings: Settings,
) -> Result<TenantRecord, Error> {
    let id = TenantId(random_uuid(vault.chance));
    let keys = TenantKeys::create(source, &id.to_string())?;
    let (name, created_at) = (name.to_owned(), vault.clock.now());
    let record = TenantRecord { id, name, kind, settings, keys, created_at };
    vault.store.insert_tenant(record.clone()).await?;
    Ok(record)
}
