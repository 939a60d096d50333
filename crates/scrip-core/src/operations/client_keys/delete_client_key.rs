//! Delete Client Key. Data that was encrypted for it and not stored yet is lost.

use crate::{
    Error, Vault,
    policy::PolicyPermit,
    policy_change::remove_row,
    types::{Operation, id::ClientKeyId},
};

/// Errors: there is no such key.
pub async fn delete_client_key(
    vault: &Vault,
    permit: PolicyPermit,
    id: ClientKeyId,
) -> Result<(), Error> {
    let latest = vault.clock.latest();
    remove_row(vault, permit, Operation::DeleteClientKey, id, move |records| {
        records.client_keys.iter().map(|it| &it.record).any(|it| it.id == id && it.is_live(latest))
    })
    .await
}
