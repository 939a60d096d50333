//! The check of values that a transaction writes.
//!
//! A node that was suspended can hold a value that a destroyed version sealed. The transaction that
//! would write this value fails, because no key could open it. A value of an old version that still
//! exists is written, and the rotation goes through the rows again before it destroys the version.

use scrip_core::{
    keys::RotatedTable,
    types::{StoreError, id::TenantId},
};
use scrip_seal::Sealed;

use crate::sql::{Execute, SealedAge, WriteTransaction, parameters};

/// Starts another pass if the last one has ended: a row of an old version is written. Locks the row in
/// any case, so that the end of a pass waits for this transaction.
const RESTART_PASS: &str = "
-- restart_rotation_pass
UPDATE key_rotations
SET pass = CASE WHEN table_name IS NULL THEN pass + 1 ELSE pass END,
    unopened = CASE WHEN table_name IS NULL THEN 0 ELSE unopened END,
    table_name = coalesce(table_name, $1)
WHERE tenant = $2 AND promoted_at IS NOT NULL AND finished_at IS NULL";

/// Checks values that a transaction writes.
pub(crate) async fn check_sealed<T: WriteTransaction>(
    transaction: &T,
    tenant: TenantId,
    values: &[&Sealed],
) -> Result<(), StoreError> {
    if values.is_empty() {
        return Ok(());
    }
    let versions = transaction.key_versions(tenant).await?;
    let mut age = SealedAge::Current;
    for value in values {
        if versions.check(value)? == SealedAge::Outdated {
            age = SealedAge::Outdated;
        }
    }
    match age {
        SealedAge::Current => Ok(()),
        SealedAge::Outdated => restart_pass(transaction, tenant).await,
    }
}

pub(crate) async fn restart_pass(
    transaction: &impl Execute,
    tenant: TenantId,
) -> Result<(), StoreError> {
    let first = RotatedTable::ALL.first().map(|it| it.as_str());
    transaction.execute(RESTART_PASS, &parameters![first, tenant]).await.map(drop)
}
