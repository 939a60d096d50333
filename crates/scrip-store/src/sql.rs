//! What both engines need to run statements: parameters, columns, and the traits that shared code
//! uses to read and write.
//!
//! Code that is the same for both engines is written once, as `async` functions over these traits.
//! PostgreSQL calls are awaited. SQLite runs on the calling thread, so its futures are ready when
//! first polled; [`run_sync_future`] polls them once.
//!
//! A statement for both engines is written once, with the parameters `$1`, `$2` and so on.
//! PostgreSQL reads them as numbers. SQLite reads them as names and numbers them by first
//! appearance, so they must appear in order; `sqlite/engine/statement.rs` checks that.

mod column;
mod parameter;

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use scrip_core::{
    Error,
    audit::AuditRecord,
    change::ChangeOutcome,
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    keys::{RotatedTable, UnlockRemoval},
    store::deliveries::{ReplayedDeliveries, TrimmedDeliveries},
    types::{StoreError, id::TenantId},
};
use scrip_seal::Sealed;

pub(crate) use crate::sql::{
    column::{
        ColumnReader, EntityColumns, MISSING_COLUMNS, NO_TOKEN, read_optional, read_required,
    },
    parameter::{Parameter, parameters},
};

/// Runs statements that read.
pub(crate) trait Statements {
    /// Runs a statement and decodes all its rows.
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError>;

    /// Runs a statement that returns at most one row.
    async fn find<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.query(sql, parameters, decode).await?.into_iter().next())
    }
}

/// Runs statements that read and statements that change rows.
pub(crate) trait Execute: Statements {
    /// Returns the number of changed rows.
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError>;
}

/// A write transaction of the vault. It commits completely or not at all.
pub(crate) trait WriteTransaction: Execute {
    /// Appends a record to the audit log.
    async fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError>;

    /// The versions of the tenant's sealing key. Fails if the tenant was deleted.
    async fn key_versions(&self, tenant: TenantId) -> Result<KeyVersions, StoreError>;

    /// Fails if the tenant was deleted: a request that began before the deletion must not write
    /// after it.
    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.key_versions(tenant).await.map(drop)
    }

    /// Checks values that the transaction writes.
    ///
    /// A node that was suspended can hold a value that a destroyed version sealed. The transaction
    /// fails, because no key could open the value. A value of an old version that still exists is
    /// written, and the rotation goes through the rows again before it destroys the version.
    async fn check_sealed(&self, tenant: TenantId, values: &[&Sealed]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let versions = self.key_versions(tenant).await?;
        let mut age = SealedAge::Current;
        for value in values {
            if versions.check(value)? == SealedAge::Outdated {
                age = SealedAge::Outdated;
            }
        }
        if age == SealedAge::Outdated {
            let first = RotatedTable::ALL.first().map(|it| it.as_str());
            self.execute(RESTART_PASS, &parameters![first, tenant]).await?;
        }
        Ok(())
    }

    /// Inserts an idempotency record and returns whether it is new. `token_numbers` are the numbers
    /// of the tokens in the response.
    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError>;

    /// Writes deliveries, with the change that raised their events.
    async fn insert_deliveries(&mut self, deliveries: &[NewDelivery]) -> Result<(), StoreError>;
}

/// Starts another pass if the last one has ended: a row of an old version is written. Locks the row in
/// any case, so that the end of a pass waits for this transaction.
const RESTART_PASS: &str = "
-- restart_rotation_pass
UPDATE key_rotations
SET pass = CASE WHEN table_name IS NULL THEN pass + 1 ELSE pass END,
    unopened = CASE WHEN table_name IS NULL THEN 0 ELSE unopened END,
    table_name = coalesce(table_name, $1)
WHERE tenant = $2 AND promoted_at IS NOT NULL AND finished_at IS NULL";

/// Runs shared code on SQLite, where no future is ever pending.
pub(crate) fn run_sync_future<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::Corrupt("a SQLite future was not ready")),
    }
}

/// The stored versions of a tenant's sealing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyVersions {
    oldest: u32,
    sealing: u32,
}

/// Whether a rotation must seal a value again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealedAge {
    Current,
    Outdated,
}

impl KeyVersions {
    /// Reads the column `tenants.sealing_version`, with zero for none, and the smallest version in
    /// `tenant_keys`. Altered values admit all writes; reloads of the policy report them.
    pub(crate) fn from_columns(sealing: i64, oldest: Option<i64>) -> Self {
        let oldest = oldest.and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
        let sealing = u32::try_from(sealing).ok().filter(|it| *it > 0).unwrap_or(oldest);
        Self { oldest, sealing }
    }

    /// Fails if the version that sealed the value was destroyed.
    pub(crate) fn check(self, sealed: &Sealed) -> Result<SealedAge, StoreError> {
        match sealed.key_version() {
            Ok(version) if version < self.oldest => Err(StoreError::Unavailable(
                "the key that encrypted this write was destroyed by a rotation; the client \
                 retries with the current key"
                    .into(),
            )),
            Ok(version) if version < self.sealing => Ok(SealedAge::Outdated),
            Ok(_) | Err(_) => Ok(SealedAge::Current),
        }
    }
}

/// Statements that delete a limited number of rows. The first parameter is the cutoff of the
/// condition, the second one the limit. PostgreSQL skips rows that another transaction is deleting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchDelete {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) sqlite_rows_max: i64,
    pub(crate) postgres_rows_max: i64,
}

/// The outcome of a transaction, which decides whether the transaction commits.
pub(crate) trait Outcome {
    fn should_commit(&self) -> bool {
        true
    }
}

macro_rules! outcomes_that_commit {
    ($($outcome:ty),*) => {
        $(impl Outcome for $outcome {})*
    };
}

outcomes_that_commit!((), usize, ReplayedDeliveries, Sealed, TrimmedDeliveries);

/// Without a removed row, there is nothing to commit.
impl Outcome for UnlockRemoval {
    fn should_commit(&self) -> bool {
        *self == Self::Removed
    }
}

/// A stale outcome rolls back: the row was not changed.
impl Outcome for ChangeOutcome {
    fn should_commit(&self) -> bool {
        *self == Self::Done
    }
}

impl<T: Outcome> Outcome for Result<T, Error> {
    fn should_commit(&self) -> bool {
        self.as_ref().is_ok_and(Outcome::should_commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(version: u32) -> Sealed {
        let mut bytes = vec![1, 1];
        bytes.extend(version.to_be_bytes());
        bytes.extend([0; 64]);
        Sealed::from_stored(bytes)
    }

    #[test]
    fn value_of_a_destroyed_version_is_rejected_and_an_old_one_is_outdated() {
        assert_eq!(sealed(7).key_version().unwrap(), 7, "the bytes are a sealed value");
        let check = |sealing, oldest, version| {
            KeyVersions::from_columns(sealing, oldest).check(&sealed(version)).ok()
        };
        let (current, outdated) = (Some(SealedAge::Current), Some(SealedAge::Outdated));
        let cases = [
            // No rotation yet.
            ((0, Some(1)), [current, current, current]),
            // Added, promoted and finished.
            ((1, Some(1)), [current, current, current]),
            ((2, Some(1)), [outdated, current, current]),
            ((2, Some(2)), [None, current, current]),
            // Altered rows.
            ((-1, None), [current, current, current]),
        ];
        for ((sealing, oldest), expected) in cases {
            let ages = [1, 2, 3].map(|it| check(sealing, oldest, it));
            assert_eq!(ages, expected, "{sealing} {oldest:?}");
        }
        let versions = KeyVersions::from_columns(2, Some(2));
        assert_eq!(versions.check(&Sealed::from_stored(vec![1])).ok(), current);
    }
}
