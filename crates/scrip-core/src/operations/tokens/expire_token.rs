//! Expire Token: a background task deletes expired tokens.
//!
//! An expired token is not readable from the moment of its expiry. This task only deletes it from
//! disk, which cannot be reverted. It therefore uses the earliest possible time, not a clock that
//! may just have jumped.

use std::sync::Arc;

use crate::{
    Vault,
    audit::AuditRecord,
    events::ExpiryEvents,
    policy::Directory,
    store::ExpiringEntity,
    types::{Operation, StoreError},
};

/// Deletes some of the expired tokens; returns how many. Deletes none while the vault is sealed,
/// because the audit records need a key.
pub async fn expire_token(vault: &Vault, directory: &Arc<Directory>) -> Result<usize, StoreError> {
    let audit = vault.audit_trail.record_for_vault(Operation::ExpireToken, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let events = expiry_events(vault, directory, &audit);
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::Token, expired_by, audit, events).await
}

/// Deletes some of the expired token intents; returns how many. See [`expire_token`].
pub async fn expire_token_intent(
    vault: &Vault,
    directory: &Arc<Directory>,
) -> Result<usize, StoreError> {
    let audit = vault.audit_trail.record_for_vault(Operation::ExpireTokenIntent, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let events = expiry_events(vault, directory, &audit);
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::TokenIntent, expired_by, audit, events).await
}

/// Erases some of the expired CVCs; returns how many.
///
/// Uses the main reading of the clock: this reading never decreases, so an expired CVC never
/// becomes readable again, and the expiry was computed from the same reading.
pub async fn erase_cvcs(vault: &Vault, directory: &Arc<Directory>) -> Result<usize, StoreError> {
    let audit = vault.audit_trail.record_for_vault(Operation::ExpireToken, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let events = expiry_events(vault, directory, &audit);
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.now()).await?;
    vault.store.erase_expired_cvcs(expired_by, events).await
}

/// The events of an expiry by the vault.
pub(crate) fn expiry_events(
    vault: &Vault,
    directory: &Arc<Directory>,
    audit: &AuditRecord,
) -> ExpiryEvents {
    let (directory, audit) = (Arc::clone(directory), audit.clone());
    ExpiryEvents { directory, audit, fill_random: vault.fill_random }
}
