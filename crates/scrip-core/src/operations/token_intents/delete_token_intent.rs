//! Delete Token Intent.

use crate::{
    Error, Vault,
    audit::{AuditRecord, Operation},
    id::TokenIntentId,
    policy::{Caller, Permission},
    store::Changed,
};

/// # Errors
/// There is no such live intent, or no rule lets the caller delete it.
pub async fn delete_token_intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
) -> Result<(), Error> {
    let inquiry = caller.inquire(Permission::TokenIntentDelete)?;
    let found = vault.store.find_token_intent(inquiry, id, vault.clock.latest()).await?;
    let record = found.ok_or(Error::NotFound)?.record;
    caller.permit(Permission::TokenIntentDelete, &record.containers)?;
    let audit = AuditRecord::new(Operation::DeleteTokenIntent, caller, vault.clock.now());
    let inquiry = caller.inquire(Permission::TokenIntentDelete)?;
    match vault.store.delete_token_intent(inquiry, id, audit).await? {
        Changed::Done => Ok(()),
        Changed::Stale => Err(Error::NotFound),
    }
}
