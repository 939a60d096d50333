//! Tenants and changes of their policy.

pub(super) mod key_rotations;

use crate::{
    Error, Timestamp,
    audit::{AuditRecord, DeletedTenant},
    change::{ChangeOutcome, DecidePolicyRestore, LoadedPolicy, PolicyEdit},
    policy::{PolicyPermit, PolicyRecords, TenantDeletion},
    store::FinishedPass,
    types::{StoreFuture, id::TenantId},
};

/// Tenants and changes of their policy. Each method is one transaction.
pub trait PolicyStore: Send + Sync {
    /// Inserts a tenant: an operator's command, so it needs no permit of a caller.
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()>;

    /// Loads a tenant's policy for a change, in one snapshot. [`Error::NotFound`] when the tenant
    /// does not exist.
    fn load_policy<'a>(
        &'a self,
        permit: &'a PolicyPermit,
    ) -> StoreFuture<'a, Result<LoadedPolicy, Error>>;

    /// Writes a policy change that was decided on a loaded policy. [`ChangeOutcome::Stale`] if the
    /// policy changed since: then nothing is written. The transaction compares the seal, so it
    /// takes the same time for a policy of any size, and it runs no code of the change.
    fn change_policy(
        &self,
        permit: PolicyPermit,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>>;

    /// As [`PolicyStore::change_policy`], for a change that destroys keys. With the end of a pass,
    /// finishes the rotation of a sealing key in the same transaction. [`Error::Conflict`] if the stored rotation is
    /// not at the end of this pass any more: a value of an old version was written since, or the
    /// rotation was paused. Returns after the engine has overwritten the keys, where it can.
    fn destroy_sealing_keys(
        &self,
        permit: PolicyPermit,
        finished: Option<FinishedPass>,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>>;

    /// Replaces a tenant's policy by rows of a backup: a command of the operator. `decide` runs
    /// inside the transaction, on the current rows, which may be altered.
    fn restore_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicyRestore,
    ) -> StoreFuture<'_, Result<(), Error>>;

    /// Deletes a tenant's keys and its policy. Without the keys, the sealed rows cannot be
    /// decrypted. [`PolicyStore::purge_tenants`] deletes these rows later.
    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>>;

    /// The list of tenants with rows to purge. The MACs of the list are not checked here.
    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>>;

    /// Deletes some of the rows of these deleted tenants; returns how many. Deletes nothing of a
    /// tenant that still has a tenant row.
    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize>;
}
