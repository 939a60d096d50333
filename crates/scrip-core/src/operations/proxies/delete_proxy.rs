//! Delete Proxy. Its key and its host are unknown from then on.

use crate::{
    Error, Vault,
    policy::{PolicyPermit, PolicyWrite},
    policy_change::{PolicyDecision, change_policy},
    types::{Operation, id::ProxyId},
};

/// Errors: there is no such proxy.
pub async fn delete_proxy(vault: &Vault, permit: PolicyPermit, id: ProxyId) -> Result<(), Error> {
    let now = vault.clock.now();
    change_policy(vault, permit, Operation::DeleteProxy, now, None, move |records| {
        if !records.proxies.iter().any(|it| it.record.id == id) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
