//! Expire Session: deletes expired sessions. A background task calls it.

use std::sync::Arc;

use crate::{
    Vault,
    operations::tokens::expire_token::expiry_events,
    policy::Directory,
    store::ExpiringEntity,
    types::{Operation, StoreError},
};

/// Deletes some of the expired sessions; returns how many.
pub async fn expire_threeds_session(
    vault: &Vault,
    directory: &Arc<Directory>,
) -> Result<usize, StoreError> {
    let audit =
        vault.audit_trail.record_for_vault(Operation::ExpireThreeDsSession, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let events = expiry_events(vault, directory, &audit);
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::ThreeDsSession, expired_by, audit, events).await
}
