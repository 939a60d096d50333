//! Delete API key.

use crate::{
    Error, Vault,
    audit::Operation,
    id::{ApiKeyId, ApplicationId},
    policy::{
        Mandate, PolicyWrite,
        change::{Decision, change_policy, found},
    },
};

/// # Errors
/// The application has no such key.
pub async fn delete_api_key(
    vault: &Vault,
    mandate: Mandate,
    application: ApplicationId,
    id: ApiKeyId,
) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, mandate, Operation::DeleteApiKey, now, None, move |records| {
        let application = found(records, application)?;
        if !application.api_keys.iter().any(|it| it.id == id) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::RemoveApiKey(id)];
        Ok(Decision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
