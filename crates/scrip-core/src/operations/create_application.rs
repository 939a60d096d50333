//! Create Application, with its first key.

use scrip_seal::{KeySource, Pepper};

use crate::{
    Vault,
    application::{AccessPolicy, ApiKeyRecord, ApplicationRecord, new_api_key},
    error::Error,
    id::{ApiKeyId, ApplicationId, random_uuid},
    permission::ApplicationKind,
    tenant::TenantRecord,
};

/// Gives the text of the key, which is not kept.
///
/// # Errors
/// The store or the key source did not answer.
pub async fn create_application(
    vault: &Vault,
    source: &dyn KeySource,
    tenant: &TenantRecord,
    name: &str,
    (kind, access): (ApplicationKind, AccessPolicy),
) -> Result<String, Error> {
    let wrapped = vault.store.load_directory().await?.pepper;
    let wrapped = wrapped.ok_or_else(|| Error::Internal("the vault is empty".into()))?;
    let key = new_api_key(tenant.kind, kind, vault.chance);
    let created_at = vault.clock.now();
    let application = ApplicationRecord {
        id: ApplicationId(random_uuid(vault.chance)),
        tenant: tenant.id,
        name: name.to_owned(),
        kind,
        access,
        created_at,
    };
    let api_key = ApiKeyRecord {
        id: ApiKeyId(random_uuid(vault.chance)),
        tenant: tenant.id,
        application: application.id,
        digest: Pepper::unwrap(source, &wrapped)?.digest(&key),
        created_at,
    };
    vault.store.insert_application(application, api_key).await?;
    Ok(key)
}
