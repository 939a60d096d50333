//! Delete Application, with its keys and whatever its sessions could do.

use crate::{
    Error, Vault,
    audit::Operation,
    id::ApplicationId,
    policy::{
        Mandate, PolicyWrite,
        change::{Decision, change_policy, found},
    },
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
