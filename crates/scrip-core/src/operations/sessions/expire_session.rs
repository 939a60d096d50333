//! Expire Session: nobody asks for it; its time is over. As with tokens.

use crate::{
    audit::Operation,
    store::{Ending, StoreError},
    vault::Vault,
};

/// Removes some of the sessions that have ended; how many.
///
/// # Errors
/// The store did not answer.
pub async fn expire_session(vault: &Vault) -> Result<usize, StoreError> {
    let audit = vault.audit.of_vault(Operation::ExpireSession, vault.clock.now());
    let Some(audit) = audit else { return Ok(0) };
    let ended = vault.store.not_after(vault.clock.earliest()).await?;
    vault.store.sweep(Ending::Session, ended, audit).await
}
