//! List Client Keys: all live keys of a tenant; and one key, by its id, both without the public
//! key.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{ClientKeyRecord, PolicyPermit},
    types::{Operation, id::ClientKeyId},
};

/// Lists live keys, oldest first.
/// Errors: the read cannot be recorded.
pub async fn list_client_keys(
    vault: &Vault,
    permit: &PolicyPermit,
) -> Result<Vec<Arc<ClientKeyRecord>>, Error> {
    let now = vault.clock.latest();
    let live = permit.tenant().client_keys.values().filter(|it| it.is_live(now));
    let mut client_keys: Vec<_> = live.cloned().collect();
    client_keys.sort_by_key(|it| (it.created.at, it.id));
    vault.record_policy_read(permit, Operation::ListClientKeys, "").await?;
    Ok(client_keys)
}

/// Errors: there is no such live key, or the read cannot be recorded.
pub async fn get_client_key(
    vault: &Vault,
    permit: &PolicyPermit,
    id: ClientKeyId,
) -> Result<Arc<ClientKeyRecord>, Error> {
    let client_key = permit.tenant().client_keys.get(&id);
    let client_key = client_key.filter(|it| it.is_live(vault.clock.latest()));
    let client_key = client_key.ok_or(Error::NotFound)?;
    vault.record_policy_read(permit, Operation::GetClientKey, id.to_string()).await?;
    Ok(Arc::clone(client_key))
}
