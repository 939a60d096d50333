//! Finish Key Rotation, by the vault: destroys the old versions that no stored value needs.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Error, Vault,
    keys::{
        RotatedTable,
        key_rotation::{KeyRotation, VersionCount},
    },
    operations::key_rotations::{KeyChange, KeyChangeWrite, change_keys, key_change_record},
    policy::{PolicyPermit, Tenant, TenantRecord},
    store::{FinishedPass, VersionPage},
    types::Operation,
    work_meter::yield_now,
};

/// Rows of one statement that counts versions.
const COUNT_BATCH: usize = 2000;

/// Counts the stored values of a tenant by column and version. Reads every row, in small
/// statements.
pub async fn count_versions(vault: &Vault, tenant: &Tenant) -> Result<Vec<VersionCount>, Error> {
    let store = &vault.store;
    // Before the deliveries: rows of the read log move there.
    let mut counts = store.count_other_key_versions(tenant.id).await?;
    for table in RotatedTable::ALL {
        let (mut versions, mut after) = (BTreeMap::<u32, u64>::new(), None);
        loop {
            let page = store.count_key_versions(tenant.id, table, after, COUNT_BATCH).await?;
            let VersionPage { counts, last } = page;
            for (version, rows) in counts {
                let count = versions.entry(version).or_default();
                *count = count.saturating_add(rows);
            }
            after = last;
            if after.is_none() {
                break;
            }
            yield_now().await;
        }
        let column = format!("{}.body", table.as_str());
        counts.extend(versions.into_iter().map(|(version, rows)| VersionCount {
            column: column.clone(),
            version,
            rows,
        }));
    }
    counts.sort();
    Ok(counts)
}

/// The counts of values that the current version did not seal.
pub(crate) fn find_old_values(tenant: &Tenant, counts: Vec<VersionCount>) -> Vec<VersionCount> {
    let current = tenant.keys.current_version();
    counts.into_iter().filter(|it| it.version != current && it.rows > 0).collect()
}

/// Destroys the old versions, if no stored value needs them. Returns the values that still do;
/// then nothing is destroyed.
///
/// The caller must have waited until no node seals with an old version. A node that was suspended can
/// still write such a value: then the rotation has another pass, and the destruction fails.
/// Errors: the store is unavailable, the policy of the tenant was altered outside of the vault, or
/// the rotation changed during the count ([`Error::Conflict`]).
pub async fn finish_key_rotation(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    rotation: &KeyRotation,
) -> Result<Vec<VersionCount>, Error> {
    let old_values = find_old_values(tenant, count_versions(vault, tenant).await?);
    if !old_values.is_empty() {
        return Ok(old_values);
    }
    let permit = PolicyPermit::for_vault(Arc::clone(tenant));
    let (loaded, current) = (tenant.keys.versions(), tenant.keys.current_version());
    let change = move |record: &TenantRecord| {
        let stored: Vec<u32> = record.keys.sealing.iter().map(|(version, _)| *version).collect();
        if stored != loaded || record.keys.current_version() != Some(current) {
            return Err(Error::Conflict { reason: "the keys of the tenant changed" });
        }
        let mut tenant = record.clone();
        tenant.keys.remove_old_versions();
        let destroyed_versions = stored.into_iter().filter(|it| *it != current).collect();
        Ok(KeyChange { tenant, destroyed_versions })
    };
    let (operation, rows) = (Operation::FinishKeyRotation, rotation.progress.resealed);
    let audit = key_change_record(vault, &permit, operation, Some(rows));
    let finished = Some(FinishedPass { pass: rotation.progress.pass, at: vault.clock.now() });
    change_keys(vault, permit, audit, KeyChangeWrite::Destroy(finished), change).await?;
    Ok(old_values)
}
