//! Expire Client Key, by the vault.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{Directory, PolicyPermit, PolicyWrite, Tenant},
    policy_change::{PolicyDecision, change_policy},
    types::{Operation, id::ClientKeyId},
};

/// Deletes the expired keys of all tenants, each with an audit record; returns how many. A failure
/// of one tenant, such as a row that was altered, does not keep the keys of other tenants.
///
/// Errors: the store is unavailable, or the policy of a tenant was altered outside of the vault.
pub async fn expire_client_keys(vault: &Vault, directory: &Directory) -> Result<usize, Error> {
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    let (mut count, mut failure) = (0_usize, None);
    for tenant in directory.tenants() {
        let expired = tenant.client_keys.values().filter(|it| !it.is_live(expired_by));
        for id in expired.map(|it| it.id) {
            match expire_client_key(vault, tenant, id).await {
                Ok(()) => count = count.saturating_add(1),
                // Another node was faster, or the key was deleted.
                Err(Error::NotFound) => (),
                Err(error) => failure = Some(error),
            }
        }
    }
    failure.map_or(Ok(count), Err)
}

async fn expire_client_key(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    id: ClientKeyId,
) -> Result<(), Error> {
    let permit = PolicyPermit::for_vault(Arc::clone(tenant));
    let now = vault.clock.now();
    change_policy(vault, permit, Operation::ExpireClientKey, now, None, move |records| {
        if !records.client_keys.iter().any(|it| it.record.id == id) {
            return Err(Error::NotFound);
        }
        let writes = vec![PolicyWrite::remove(id)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: () })
    })
    .await
}
