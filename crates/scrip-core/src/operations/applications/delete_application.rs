//! Delete Application, with its keys. Its access sessions lose their rights.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    policy_change::{load_application, remove_row},
    types::{Operation, id::ApplicationId},
};

/// Errors: there is no such application.
pub async fn delete_application(
    vault: &Vault,
    permit: PolicyPermit,
    id: ApplicationId,
) -> Result<(), Error> {
    remove_row(vault, permit, Operation::DeleteApplication, id, move |records| {
        load_application(records, id).is_ok()
    })
    .await
}
