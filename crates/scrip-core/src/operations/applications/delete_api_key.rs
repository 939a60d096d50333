//! Delete API key.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    policy_change::{load_application, remove_row},
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
    remove_row(vault, permit, Operation::DeleteApiKey, id, move |records| {
        let application = load_application(records, application);
        application.is_ok_and(|it| it.api_keys.iter().any(|it| it.id == id))
    })
    .await
}
