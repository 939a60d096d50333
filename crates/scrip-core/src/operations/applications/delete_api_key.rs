//! Delete API key.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, PolicyWrite},
    policy_change::{PolicyDecision, change_policy, load_application},
    types::{
        Operation,
        id::{ApiKeyId, ApplicationId},
    },
};

/// Errors: the application has no such key.
pub async fn delete_api_key(
    vault: &Vault,
    permit: PolicyPermit,
    application: ApplicationId,
    id: ApiKeyId,
) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, permit, Operation::DeleteApiKey, now, None, move |records| {
        let application = load_application(records, application)?;
        if !application.api_keys.iter().any(|it| it.id == id) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
