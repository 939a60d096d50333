//! Delete Tenant: its keys go in the same step, so nothing of it opens afterwards.

use crate::{
    Vault,
    audit::{AuditRecord, Operation},
    caller::Mandate,
    error::Error,
    store::Deleted,
};

/// # Errors
/// The tenant is gone.
pub async fn delete_tenant(vault: &Vault, mandate: Mandate) -> Result<(), Error> {
    let audit = AuditRecord::of(Operation::DeleteTenant, &mandate, vault.clock.now());
    match vault.store.delete_tenant(mandate, audit).await? {
        Deleted::Done => Ok(()),
        Deleted::Stale => Err(Error::NotFound),
    }
}
