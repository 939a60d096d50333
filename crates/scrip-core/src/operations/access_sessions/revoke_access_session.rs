//! Revoke Access Session: the operator ends a session before it expires.

use crate::{
    Error, Vault,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    policy::{AccessSessionId, PolicyPermit},
    types::Operation,
};

/// Errors: the tenant has no such session.
pub async fn revoke_access_session(
    vault: &Vault,
    permit: PolicyPermit,
    id: AccessSessionId,
) -> Result<(), Error> {
    let audit = AuditRecord::for_policy(Operation::RevokeAccessSession, &permit, vault.clock.now());
    let extras =
        CommitExtras { audit, entity: id.to_string(), idempotency: None, deliveries: Vec::new() };
    match vault.store.revoke_access_session(permit, id, extras).await? {
        ChangeOutcome::Done => Ok(()),
        ChangeOutcome::Stale => Err(Error::NotFound),
    }
}
