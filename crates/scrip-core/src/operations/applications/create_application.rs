//! Create Application, with or without a first key.

use scrip_seal::Pepper;

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    policy::{
        AccessPolicy, ApiKeyText, Application, ApplicationRecord, DisplayName, PolicyPermit,
        PolicyWrite, SignedRow, application::origins::ApplicationOrigins,
    },
    policy_change::{PolicyDecision, change_policy, new_api_key_record},
    types::{
        ApplicationKind, Operation,
        id::{ApplicationId, random_uuid},
    },
};

/// Every change checks the whole policy of the tenant, so its size is limited.
const APPLICATIONS_MAX: usize = 5_000;

/// A parsed request that creates an application.
#[derive(Debug)]
pub struct NewApplication {
    pub name: DisplayName,
    pub kind: ApplicationKind,
    pub access: AccessPolicy,
    pub origins: ApplicationOrigins,
    pub create_key: CreateKey,
}

/// Whether the new application gets an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateKey {
    Yes,
    No,
}

#[derive(Debug, Clone)]
pub struct CreatedApplication {
    pub application: Application,
    /// Returned once and never again.
    pub api_key: Option<ApiKeyText>,
}

/// Errors: the request is invalid, or the tenant has too many applications.
pub async fn create_application(
    vault: &Vault,
    permit: PolicyPermit,
    pepper: &Pepper,
    new: NewApplication,
    recorder: Option<ResponseRecorder<CreatedApplication>>,
) -> Result<CreatedApplication, Error> {
    new.access.check(new.kind).map_err(Error::Invalid)?;
    let now = vault.clock.now();
    let tenant = permit.tenant();
    let mut record = ApplicationRecord {
        id: ApplicationId(random_uuid(vault.fill_random)),
        tenant: tenant.id,
        name: new.name,
        kind: new.kind,
        access: new.access,
        origins: ApplicationOrigins::default(),
        created: permit.change_stamp(now),
        modified: None,
    };
    record.set_origins(new.origins)?;
    let api_key = (new.create_key == CreateKey::Yes)
        .then(|| ApiKeyText::new(tenant.kind, new.kind.key_segment(), vault.fill_random));
    let api_keys: Vec<_> = api_key
        .iter()
        .map(|it| new_api_key_record(vault, &permit, record.id, it, pepper, now))
        .collect();
    let keys = &tenant.keys;
    let mut writes = vec![PolicyWrite::put(SignedRow::new(keys, record.clone()))];
    let sign = |it: &crate::policy::ApiKeyRecord| SignedRow::new(keys, it.clone());
    writes.extend(api_keys.iter().map(sign).map(PolicyWrite::put));
    let entity = record.id.to_string();
    let outcome = CreatedApplication { application: Application { record, api_keys }, api_key };
    let operation = Operation::CreateApplication;
    change_policy(vault, permit, operation, now, recorder, move |records| {
        if records.applications.len() >= APPLICATIONS_MAX {
            let reason = "a tenant can have at most 5000 applications; delete one";
            return Err(Error::Unprocessable { reason });
        }
        let (writes, entity) = (writes.clone(), entity.clone());
        Ok(PolicyDecision { writes, entity, outcome: outcome.clone() })
    })
    .await
}
