//! Tenants and changes of their policy.

use crate::{
    audit::{AuditRecord, DeletedTenant},
    error::Error,
    id::TenantId,
    policy::{DecidePolicy, PolicyPermit, PolicyRecords, TenantDeletion},
    store::{ChangeOutcome, StoreFuture},
    time::Timestamp,
};

/// Tenants and changes of their policy.
/// Each method is one transaction.
pub trait PolicyStore: Send + Sync {
    /// A new tenant: the operator's act, so no caller has to be permitted.
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()>;

    /// Changes a tenant's policy by what is decided inside the transaction, on the policy as it is
    /// then. [`Error::NotFound`] when the tenant is gone.
    fn change_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>>;

    /// Deletes a tenant's keys, and with them the sense of all that they sealed, and its policy.
    /// The rows that make no sense any more are left to [`PolicyStore::purge_tenants`].
    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>>;

    /// The tenants whose rows are to be purged, as the list says: its rows are not checked here.
    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>>;

    /// Removes some of the rows that these deleted tenants left; how many. Nothing of a tenant that
    /// has a row among the tenants.
    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize>;
}
