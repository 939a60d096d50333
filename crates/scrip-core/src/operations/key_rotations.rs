//! The rotation of the sealing keys of tenants, by the operator and by the vault.

pub mod advance_audit_key;
pub mod finish_key_rotation;
pub mod promote_sealing_key;
pub mod reseal_rows;
pub mod rotate_fingerprints;
pub mod start_key_rotation;

use crate::{
    Error, Vault,
    audit::{AuditRecord, Operation},
    policy::{
        DecidePolicy, PolicyEdit, PolicyPermit, PolicyRecords, PolicyWrite, SignedRow, TenantRecord,
    },
    store::CommitExtras,
};

/// A change of a tenant's keys, decided on the current rows.
struct KeyChange {
    tenant: TenantRecord,
    destroyed_versions: Vec<u32>,
}

/// Builds the decision of a key change. All policy rows are sealed with `version` afterwards. A key
/// change is no event of a webhook, and no change that a client sees.
fn decide_key_change(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    rows: Option<u64>,
    change: impl FnOnce(&TenantRecord) -> Result<KeyChange, Error> + Send + 'static,
) -> DecidePolicy {
    let mut audit = AuditRecord::for_policy(operation, &permit, vault.clock.now());
    audit.repeats = rows.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    Box::new(move |mut records: PolicyRecords| {
        permit.check(&records)?;
        let keys = &permit.tenant().keys;
        let KeyChange { tenant, destroyed_versions } = change(&records.tenant.record)?;
        let entity = tenant.id.to_string();
        let version = tenant.keys.current_version().unwrap_or_default();
        let mut writes = vec![PolicyWrite::PutTenant(SignedRow::new(keys, tenant))];
        // While the new version only opens, the permit may not have its key yet.
        if keys.versions().contains(&version) {
            writes.extend(reseal_policy(&permit, &records, version)?);
        }
        for write in &writes {
            records.apply(write);
        }
        let seal = records.next_seal(keys);
        let extras = CommitExtras { audit, entity, idempotency: None, deliveries: Vec::new() };
        Ok(PolicyEdit { writes, seal, extras, destroyed_versions })
    })
}

/// The policy rows that another version sealed, sealed again and signed.
fn reseal_policy(
    permit: &PolicyPermit,
    records: &PolicyRecords,
    version: u32,
) -> Result<Vec<PolicyWrite>, Error> {
    let keys = &permit.tenant().keys;
    let mut writes = Vec::new();
    for row in &records.proxies {
        let resealed = row.record.reseal(keys, version)?;
        writes.extend(resealed.map(|it| PolicyWrite::PutProxy(Box::new(it))));
    }
    for row in &records.webhooks {
        let resealed = row.record.reseal(keys, version)?;
        writes.extend(resealed.map(|it| PolicyWrite::PutWebhook(Box::new(it))));
    }
    for row in &records.client_keys {
        // The row of a client encryption key never changes, so it is removed and inserted again.
        if let Some(resealed) = row.record.reseal(keys, version)? {
            writes.push(PolicyWrite::RemoveClientKey(resealed.record.id));
            writes.push(PolicyWrite::PutClientKey(Box::new(resealed)));
        }
    }
    Ok(writes)
}
