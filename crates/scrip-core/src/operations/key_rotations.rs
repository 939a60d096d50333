//! The rotation of the sealing keys of tenants, by the operator and by the vault.

pub mod advance_audit_key;
pub mod finish_key_rotation;
pub mod promote_sealing_key;
pub mod reseal_rows;
pub mod rotate_fingerprints;
pub mod start_key_rotation;

use crate::{
    Error, Vault,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras, LoadedPolicy, PolicyEdit},
    policy::{
        PolicyPermit, PolicyRecords, PolicyWrite, SignedRow, TenantRecord, entity::EntityWrites,
    },
    store::FinishedPass,
    types::Operation,
};

/// A change of a tenant's keys, decided on the current rows.
struct KeyChange {
    tenant: TenantRecord,
    destroyed_versions: Vec<u32>,
}

/// How a key change is written.
enum KeyChangeWrite {
    Change,
    /// Overwrites destroyed keys, and ends the pass of a rotation.
    Destroy(Option<FinishedPass>),
}

/// Decides a key change on the current rows and writes it. All policy rows are sealed with
/// `version` afterwards. A key change is no event of a webhook, and no change that a client sees.
async fn change_keys(
    vault: &Vault,
    permit: PolicyPermit,
    audit: AuditRecord,
    write: KeyChangeWrite,
    change: impl FnOnce(&TenantRecord) -> Result<KeyChange, Error> + Send,
) -> Result<(), Error> {
    let LoadedPolicy { records, turn } = vault.store.load_policy(&permit).await??;
    let edit = prepare_key_change(&permit, records, audit, change)?;
    let written = match write {
        KeyChangeWrite::Change => vault.store.change_policy(permit, edit).await??,
        KeyChangeWrite::Destroy(finished) => {
            vault.store.destroy_sealing_keys(permit, finished, edit).await??
        }
    };
    drop(turn);
    match written {
        ChangeOutcome::Done => Ok(()),
        // The background task and the operator repeat a key change.
        ChangeOutcome::Stale => Err(Error::Conflict { reason: "the policy of the tenant changed" }),
    }
}

/// The audit record of a key change that concerns this many rows.
fn key_change_record(
    vault: &Vault,
    permit: &PolicyPermit,
    operation: Operation,
    rows: Option<u64>,
) -> AuditRecord {
    let mut audit = AuditRecord::for_policy(operation, permit, vault.clock.now());
    audit.repeats = rows.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    audit
}

fn prepare_key_change(
    permit: &PolicyPermit,
    mut records: PolicyRecords,
    audit: AuditRecord,
    change: impl FnOnce(&TenantRecord) -> Result<KeyChange, Error>,
) -> Result<PolicyEdit, Error> {
    permit.check(&records)?;
    let (keys, base) = (&permit.tenant().keys, records.seal);
    let KeyChange { tenant, destroyed_versions } = change(&records.tenant.record)?;
    let entity = tenant.id.to_string();
    let version = tenant.keys.current_version().unwrap_or_default();
    let mut writes = vec![PolicyWrite::put(SignedRow::new(keys, tenant))];
    // While the new version only opens, the permit may not have its key yet.
    if keys.versions().contains(&version) {
        writes.extend(reseal_policy(permit, &records, version)?);
    }
    for write in &writes {
        records.apply(write);
    }
    let seal = records.next_seal(keys);
    let extras = CommitExtras { audit, entity, idempotency: None, deliveries: Vec::new() };
    Ok(PolicyEdit { base, writes, seal, extras, destroyed_versions })
}

/// The policy rows that another version sealed, sealed again and signed.
fn reseal_policy(
    permit: &PolicyPermit,
    records: &PolicyRecords,
    version: u32,
) -> Result<Vec<PolicyWrite>, Error> {
    let keys = &permit.tenant().keys;
    let mut writes = Vec::new();
    for row in records.rows() {
        let Some(resealed) = row.reseal(keys, version)? else { continue };
        // A row that never changes is removed and inserted again.
        if row.entity().writes == EntityWrites::Insert {
            writes.extend(resealed.id().map(PolicyWrite::Remove));
        }
        writes.push(PolicyWrite::Put(resealed));
    }
    Ok(writes)
}
