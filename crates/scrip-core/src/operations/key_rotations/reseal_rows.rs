//! Seals the rows of a tenant again with the promoted version, in the background.

use crate::{
    Error, Vault,
    change::ChangeOutcome,
    keys::{SealedRows, key_rotation::KeyRotation},
    policy::Tenant,
    store::RotationStep,
};

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResealedStep {
    /// Rows that an old version sealed.
    pub resealed: u64,
    /// Rows that cannot be opened.
    pub unopened: u64,
    /// Whether another node worked on the rotation at the same time: read it again.
    pub is_stale: bool,
}

/// Seals the next rows of a rotation again, and advances its progress in the same transaction. The
/// rotation must not be at the end of its pass.
pub async fn reseal_rows(
    vault: &Vault,
    tenant: &Tenant,
    rotation: &mut KeyRotation,
    rows_max: usize,
) -> Result<ResealedStep, Error> {
    let before = rotation.progress.clone();
    let Some(table) = before.table else { return Ok(ResealedStep::default()) };
    let listed = vault.store.list_sealed_rows(tenant.id, table, before.after.clone(), rows_max);
    let SealedRows { rows, undecoded, last } = listed.await?;
    let (mut resealed_rows, mut unopened) = (Vec::new(), undecoded);
    for row in &rows {
        match row.reseal(&tenant.keys, tenant.id) {
            Ok(resealed) => resealed_rows.extend(resealed),
            // An altered row must not stop the others. It keeps its version from destruction.
            Err(_) => unopened = unopened.saturating_add(1),
        }
    }
    let resealed = u64::try_from(resealed_rows.len()).unwrap_or(u64::MAX);
    let after = before.after_rows(last, unopened);
    let mut progress = after.clone();
    progress.resealed = progress.resealed.saturating_add(resealed);
    let step = RotationStep { tenant: tenant.id, before, after, rows: resealed_rows };
    match vault.store.advance_key_rotation(step).await? {
        ChangeOutcome::Done => {
            rotation.progress = progress;
            Ok(ResealedStep { resealed, unopened, is_stale: false })
        }
        ChangeOutcome::Stale => Ok(ResealedStep { is_stale: true, ..ResealedStep::default() }),
    }
}

/// Starts another pass, because rows of an old version are left.
pub async fn start_next_pass(vault: &Vault, rotation: &mut KeyRotation) -> Result<(), Error> {
    let (before, after) = (rotation.progress.clone(), rotation.progress.next_pass());
    let step =
        RotationStep { tenant: rotation.tenant, before, after: after.clone(), rows: Vec::new() };
    if vault.store.advance_key_rotation(step).await? == ChangeOutcome::Done {
        rotation.progress = after;
    }
    Ok(())
}
