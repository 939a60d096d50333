//! Expire Token: nobody asks for it; its time is over.
//!
//! Long before this a token is out of reach, on the instant. Here it leaves the disk, which cannot
//! be taken back: so what counts is the earliest that it can be, and not what a clock that was just
//! moved says.

use crate::{
    audit::Operation,
    store::{ExpiringEntity, StoreError},
    vault::Vault,
};

/// Removes some of the tokens that have expired; how many. None while the vault is sealed: what is
/// removed is recorded, which takes a key.
///
/// # Errors
/// The store did not answer.
pub async fn expire_token(vault: &Vault) -> Result<usize, StoreError> {
    let audit = vault.audit_trail.record_for_vault(Operation::ExpireToken, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::Token, expired_by, audit).await
}

/// Removes some of the token intents whose time is over; how many. As with tokens.
///
/// # Errors
/// The store did not answer.
pub async fn expire_token_intent(vault: &Vault) -> Result<usize, StoreError> {
    let audit = vault.audit_trail.record_for_vault(Operation::ExpireTokenIntent, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    vault.store.delete_expired(ExpiringEntity::TokenIntent, expired_by, audit).await
}

/// Erases some of the card verification codes whose time is over; how many.
///
/// By the clock's main reading: it never goes back, so nobody would ever see them again; and a code's
/// time runs from when it was given, by that same reading.
///
/// # Errors
/// The store did not answer.
pub async fn erase_cvcs(vault: &Vault) -> Result<usize, StoreError> {
    let expired_by = vault.store.cap_at_shared_clock(vault.clock.now()).await?;
    vault.store.erase_expired_cvcs(expired_by).await
}
