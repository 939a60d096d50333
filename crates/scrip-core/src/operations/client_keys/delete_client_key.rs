//! Delete Client Key. Data that was encrypted for it and not stored yet is lost.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, PolicyWrite},
    policy_change::{PolicyDecision, change_policy},
    types::{Operation, id::ClientKeyId},
};

/// Errors: there is no such key.
pub async fn delete_client_key(
    vault: &Vault,
    permit: PolicyPermit,
    id: ClientKeyId,
) -> Result<(), Error> {
    let (now, latest) = (vault.clock.now(), vault.clock.latest());
    change_policy(vault, permit, Operation::DeleteClientKey, now, None, move |records| {
        let mut rows = records.client_keys.iter().map(|it| &it.record);
        if !rows.any(|it| it.id == id && it.is_live(latest)) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
