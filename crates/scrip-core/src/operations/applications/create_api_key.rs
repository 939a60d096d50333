//! Create API key: another one beside those that an application has; or one made elsewhere.

use scrip_seal::Pepper;

use crate::{
    Error, Vault,
    audit::Operation,
    id::ApplicationId,
    idempotency::Remember,
    policy::{
        ApiKeyRecord, ApiKeyText, Mandate, PolicyWrite, Signed,
        change::{Decision, api_key_record, change_policy, found},
    },
};

const API_KEYS_MAX: usize = 100;

#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    pub record: ApiKeyRecord,
    /// Shown now, and never again.
    pub api_key: ApiKeyText,
}

/// # Errors
/// There is no such application, or it has too many keys.
pub async fn create_api_key(
    vault: &Vault,
    mandate: Mandate,
    pepper: &Pepper,
    application: ApplicationId,
    remember: Option<Remember<CreatedApiKey>>,
) -> Result<CreatedApiKey, Error> {
    let tenant = mandate.tenant();
    let kind = tenant.applications.get(&application).ok_or(Error::NotFound)?.record.kind;
    let api_key = ApiKeyText::new(tenant.kind, kind.key_mark(), vault.chance);
    let now = vault.clock.now();
    let record = api_key_record(vault, &mandate, application, &api_key, pepper, now);
    let created = CreatedApiKey { record, api_key };
    insert(vault, mandate, Operation::CreateApiKey, created, remember).await
}

/// A key that clients already have goes on working.
///
/// # Errors
/// There is no such application, it has too many keys, or the key is in use.
pub async fn import_api_key(
    vault: &Vault,
    mandate: Mandate,
    pepper: &Pepper,
    application: ApplicationId,
    api_key: ApiKeyText,
) -> Result<CreatedApiKey, Error> {
    let now = vault.clock.now();
    let record = api_key_record(vault, &mandate, application, &api_key, pepper, now);
    let created = CreatedApiKey { record, api_key };
    insert(vault, mandate, Operation::ImportApiKey, created, None).await
}

async fn insert(
    vault: &Vault,
    mandate: Mandate,
    operation: Operation,
    created: CreatedApiKey,
    remember: Option<Remember<CreatedApiKey>>,
) -> Result<CreatedApiKey, Error> {
    let signed = Signed::new(&mandate.tenant().keys, created.record.clone());
    let now = created.record.created.at;
    change_policy(vault, mandate, operation, now, remember, move |records| {
        let application = found(records, created.record.application)?;
        if application.api_keys.len() >= API_KEYS_MAX {
            let reason = "an application has at most 100 keys; delete one";
            return Err(Error::Unprocessable { reason });
        }
        let entity = created.record.id.to_string();
        Ok(Decision { writes: vec![PolicyWrite::PutApiKey(signed)], entity, outcome: created })
    })
    .await
}
