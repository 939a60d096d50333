//! Expire Session: nobody asks for it; its time is over. As with tokens.

use crate::{
    audit::Operation,
    store::{ExpiringEntity, StoreError},
    vault::Vault,
};

/// Removes some of the sessions that have ended; how many.
///
/// # Errors
/// The store did not answer.
pub async fn expire_threeds_session(vault: &Vault) -> Result<usize, StoreError> {
    let audit =
        vault.audit_trail.record_for_vault(Operation::ExpireThreeDsSession, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::ThreeDsSession, expired_by, audit).await
}
