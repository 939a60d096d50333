//! List API keys of an application, and get one of them.

use crate::{
    Error, Vault,
    operations::applications::list_applications::find_application,
    policy::{ApiKeyRecord, PolicyPermit},
    types::{
        ApplicationKind, Operation,
        id::{ApiKeyId, ApplicationId},
    },
};

/// Lists the API keys of an application, oldest first. An API key has the kind of its application;
/// an empty list of kinds means all kinds.
///
/// Errors: there is no such application, or the read cannot be recorded.
pub async fn list_api_keys<'a>(
    vault: &Vault,
    permit: &'a PolicyPermit,
    application: ApplicationId,
    kinds: &[ApplicationKind],
) -> Result<&'a [ApiKeyRecord], Error> {
    let application = find_application(permit, application)?;
    vault.record_policy_read(permit, Operation::ListApiKeys, "").await?;
    let is_requested = kinds.is_empty() || kinds.contains(&application.record.kind);
    Ok(if is_requested { &application.api_keys } else { &[] })
}

/// Errors: the application has no such key, or the read cannot be recorded.
pub async fn get_api_key<'a>(
    vault: &Vault,
    permit: &'a PolicyPermit,
    application: ApplicationId,
    id: ApiKeyId,
) -> Result<&'a ApiKeyRecord, Error> {
    let keys = &find_application(permit, application)?.api_keys;
    let api_key = keys.iter().find(|it| it.id == id).ok_or(Error::NotFound)?;
    vault.record_policy_read(permit, Operation::GetApiKey, id.to_string()).await?;
    Ok(api_key)
}
