//! Revoke Access Session: the operator ends a session before its time.

use crate::{
    Error, Vault,
    audit::{AuditRecord, Operation},
    policy::{AccessSessionId, Mandate},
    store::{Beside, Changed},
};

/// # Errors
/// The tenant has no such session.
pub async fn revoke_access_session(
    vault: &Vault,
    mandate: Mandate,
    id: AccessSessionId,
) -> Result<(), Error> {
    let audit = AuditRecord::of(Operation::RevokeAccessSession, &mandate, vault.clock.now());
    let written = Beside { audit, entity: id.to_string(), answer: None };
    match vault.store.revoke_access_session(mandate, id, written).await? {
        Changed::Done => Ok(()),
        Changed::Stale => Err(Error::NotFound),
    }
}
