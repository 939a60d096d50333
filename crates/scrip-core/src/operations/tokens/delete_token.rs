//! Delete Token.

use crate::{
    Error, Vault,
    audit::AuditRecord,
    change::ChangeOutcome,
    events::{EventSource, payload},
    policy::Caller,
    token_batch::DeleteToken,
    types::{EventType, Operation, Permission, id::TokenId},
    work_meter::contention_error,
    writes::batch::ATTEMPTS_MAX,
};

/// Errors: there is no such live token, or no rule allows the caller to delete it.
pub async fn delete_token(vault: &Vault, caller: &Caller, id: &TokenId) -> Result<(), Error> {
    for _ in 0..ATTEMPTS_MAX {
        let now = vault.clock.now();
        let lookup = caller.permit_lookup(Permission::TokenDelete)?;
        let stored = vault.store.find_token(lookup, id, now).await?.ok_or(Error::NotFound)?;
        let permit = caller.permit(Permission::TokenDelete, &stored.record)?;
        let audit = AuditRecord::new(Operation::DeleteToken, caller, now);
        let deliveries = EventSource::new(caller.tenant(), &audit, vault.fill_random)
            .raise(EventType::TokenDeleted, || payload::token::describe_deleted_token(id));
        let revision = stored.record.revision;
        let delete = DeleteToken { id: id.clone(), revision, audit, deliveries };
        match vault.store.delete_token(permit, delete).await? {
            ChangeOutcome::Done => return Ok(()),
            // The token changed since it was read: check again whether the caller may delete it.
            ChangeOutcome::Stale => (),
        }
    }
    Err(contention_error())
}
