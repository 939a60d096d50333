//! Delete Token Intent.

use crate::{
    Error, Vault,
    audit::AuditRecord,
    change::ChangeOutcome,
    events::{EventSource, payload},
    policy::Caller,
    types::{EventType, Operation, Permission, id::TokenIntentId},
};

/// Errors: there is no such live intent, or no rule allows the caller to delete it.
pub async fn delete_token_intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
) -> Result<(), Error> {
    let lookup = caller.permit_lookup(Permission::TokenIntentDelete)?;
    let stored = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = stored.ok_or(Error::NotFound)?.record;
    caller.permit(Permission::TokenIntentDelete, &record.containers)?;
    let audit = AuditRecord::new(Operation::DeleteTokenIntent, caller, vault.clock.now());
    let deliveries = EventSource::new(caller.tenant(), &audit, vault.fill_random)
        .raise(EventType::TokenIntentDeleted, || payload::token::describe_deleted_intent(id));
    let lookup = caller.permit_lookup(Permission::TokenIntentDelete)?;
    match vault.store.delete_token_intent(lookup, id, audit, deliveries).await? {
        ChangeOutcome::Done => Ok(()),
        ChangeOutcome::Stale => Err(Error::NotFound),
    }
}
