//! Delete Application, with its keys and whatever its sessions could do.

use crate::{
    audit::Operation,
    error::Error,
    id::ApplicationId,
    policy::{
        Mandate, PolicyWrite,
        change::{Decision, change_policy, found},
    },
    vault::Vault,
};

/// # Errors
/// There is no such application.
pub async fn delete_application(
    vault: &Vault,
    mandate: Mandate,
    id: ApplicationId,
) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, mandate, Operation::DeleteApplication, now, None, move |records| {
        found(records, id)?;
        let writes = vec![PolicyWrite::RemoveApplication(id)];
        Ok(Decision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
