//! Expire Client Key, by the vault.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{Directory, PolicyPermit},
    policy_change::remove_row,
    types::Operation,
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
            let permit = PolicyPermit::for_vault(Arc::clone(tenant));
            let removed =
                remove_row(vault, permit, Operation::ExpireClientKey, id, move |records| {
                    records.client_keys.iter().any(|it| it.record.id == id)
                });
            match removed.await {
                Ok(()) => count = count.saturating_add(1),
                // Another node was faster, or the key was deleted.
                Err(Error::NotFound) => (),
                Err(error) => failure = Some(error),
            }
        }
    }
    failure.map_or(Ok(count), Err)
}
