//! Delete Application, with its keys. Its access sessions lose their rights.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, PolicyWrite},
    policy_change::{PolicyDecision, change_policy, load_application},
    types::{Operation, id::ApplicationId},
};

/// Errors: there is no such application.
pub async fn delete_application(
    vault: &Vault,
    permit: PolicyPermit,
    id: ApplicationId,
) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, permit, Operation::DeleteApplication, now, None, move |records| {
        load_application(records, id)?;
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
