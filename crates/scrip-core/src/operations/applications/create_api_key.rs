//! Create API key: generates another key of an application, or imports an existing one.

use scrip_seal::Pepper;

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    policy::{ApiKeyRecord, ApiKeyText, PolicyPermit, PolicyWrite, SignedRow},
    policy_change::{PolicyDecision, change_policy, load_application, new_api_key_record},
    types::{Operation, id::ApplicationId},
};

const API_KEYS_MAX: usize = 100;

#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    pub record: ApiKeyRecord,
    /// Returned once and never again.
    pub api_key: ApiKeyText,
}

/// Errors: there is no such application, or it has too many keys.
pub async fn create_api_key(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
    application: ApplicationId,
    recorder: Option<ResponseRecorder<CreatedApiKey>>,
) -> Result<CreatedApiKey, Error> {
    let tenant = permit.tenant();
    let kind = tenant.applications.get(&application).ok_or(Error::NotFound)?.record.kind;
    let api_key = ApiKeyText::new(tenant.kind, kind.key_segment(), vault.fill_random);
    let now = vault.clock.now();
    let record = new_api_key_record(vault, &permit, application, &api_key, pepper, now);
    let created = CreatedApiKey { record, api_key };
    insert_api_key(vault, permit, Operation::CreateApiKey, created, recorder).await
}

/// Imports a key that clients already use.
/// Errors: there is no such application, it has too many keys, or the key is in use.
pub async fn import_api_key(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
    application: ApplicationId,
    api_key: ApiKeyText,
) -> Result<CreatedApiKey, Error> {
    let now = vault.clock.now();
    let record = new_api_key_record(vault, &permit, application, &api_key, pepper, now);
    let created = CreatedApiKey { record, api_key };
    insert_api_key(vault, permit, Operation::ImportApiKey, created, None).await
}

async fn insert_api_key(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    created: CreatedApiKey,
    recorder: Option<ResponseRecorder<CreatedApiKey>>,
) -> Result<CreatedApiKey, Error> {
    let signed_row = SignedRow::new(&permit.tenant().keys, created.record.clone());
    let now = created.record.created.at;
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let application = load_application(records, created.record.application)?;
        if application.api_keys.len() >= API_KEYS_MAX {
            let reason = "an application can have at most 100 keys; delete one";
            return Err(Error::Unprocessable { reason });
        }
        let entity = created.record.id.to_string();
        Ok(PolicyDecision {
            writes: vec![PolicyWrite::put(signed_row.clone())],
            entity,
            outcome: created.clone(),
        })
    })
    .await
}
