//! Restore Policy: replaces the altered policy of a tenant by its policy in a backup. An operator's
//! command.
//!
//! Only rows with valid MACs are written. The seal gets a new counter above every counter that a
//! running server may remember, so that the server does not take the old policy for a rollback. The
//! counter comes from rows with valid MACs only: a forged high number would leave no number for
//! later changes.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, ChainHead, LogKind},
    change::{PolicyRestore, StoredPolicy},
    policy::{PolicyPermit, PolicyRecords, SignedRow},
    types::Operation,
};

/// A policy of a backup, and the stored rows that it replaces.
#[derive(Debug)]
pub struct NewPolicyRestore {
    pub backup: PolicyRecords,
    /// The stored rows that the operator saw. The restoration fails if they have changed.
    pub replaced: Option<PolicyRecords>,
    /// Whether the wrapped keys of the tenant are replaced too.
    pub replaces_keys: bool,
    /// When the keys of the tenant are destroyed, if its deletion was requested after the backup.
    pub deletes_at: Option<Timestamp>,
}

/// Replaces the policy in one transaction. The permit is for the tenant as it is in the backup.
///
/// Errors: a row of the backup is altered, the tenant was deleted, or the stored policy changed at
/// the same time.
pub async fn restore_policy(
    vault: &Vault,
    permit: PolicyPermit,
    new: NewPolicyRestore,
) -> Result<(), Error> {
    let tenant = permit.tenant();
    let (id, keys) = (tenant.id, Arc::clone(&tenant.keys));
    if new.backup.tenant.record.id != id || !new.backup.find_alterations(&keys).is_empty() {
        let reason = "the policy in the backup is altered";
        return Err(Error::Unprocessable { reason });
    }
    // Each change of a policy appends a record, so no counter is higher than the last number.
    let heads = vault.store.list_heads(LogKind::Audit).await?;
    let audit_key = vault.audit_trail.key();
    let is_authentic =
        |it: &&ChainHead| audit_key.is_some_and(|key| it.has_valid_mac(key, LogKind::Audit));
    let last_head = heads.iter().find(|it| it.tenant == id).filter(is_authentic);
    let last_record = last_head.map_or(0, |it| it.sequence);
    let now = vault.clock.now();
    let audit = AuditRecord::for_policy(Operation::RestorePolicy, &permit, now);
    let audit_key = audit_key.cloned();
    let decide = move |stored: StoredPolicy| {
        if audit_key.is_some_and(|key| stored.is_listed_as_deleted(&key)) {
            return Err(Error::Unprocessable { reason: DELETED_ON_PURPOSE });
        }
        if stored.records != new.replaced {
            let reason = "the policy changed at the same time; run the command again";
            return Err(Error::Conflict { reason });
        }
        let authentic = stored.records.filter(|it| it.has_valid_seal(&keys));
        let stored_counter = authentic.map_or(0, |it| it.seal.counter);
        let mut records = new.backup;
        if new.deletes_at.is_some() {
            let mut tenant = records.tenant.record;
            tenant.deletes_at = new.deletes_at;
            records.tenant = SignedRow::new(&keys, tenant);
        }
        records.seal.counter = records.seal.counter.max(stored_counter).max(last_record);
        records.seal = records.next_seal(&keys);
        Ok(PolicyRestore { records, replaces_keys: new.replaces_keys, audit })
    };
    vault.store.restore_policy(permit, Box::new(decide)).await?
}

/// The reason for the refusal to restore the policy of a tenant with destroyed keys.
const DELETED_ON_PURPOSE: &str = "the tenant was deleted on purpose; nothing was changed";
