//! Differences between the engines, hidden so that a store trait is implemented once for both.

use scrip_core::{
    Error,
    change::ChangeOutcome,
    keys::UnlockRemoval,
    store::deliveries::{ReplayedDeliveries, TrimmedDeliveries},
};
use scrip_seal::Sealed;

/// Statements that delete a limited number of rows. The first parameter is the cutoff of the
/// condition, the second one the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchDelete {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) sqlite_rows_max: i64,
    pub(crate) postgres_rows_max: i64,
}

/// Builds a [`BatchDelete`] from a name, a table and a condition, or the statement of one engine.
/// Each engine has its own row key. PostgreSQL skips rows that another transaction is deleting.
macro_rules! delete_batch {
    (
        $name:literal, $table:literal, $condition:literal,
        sqlite: $sqlite_key:literal up to $sqlite_rows_max:literal,
        postgres: $postgres_key:literal up to $postgres_rows_max:literal $(,)?
    ) => {
        $crate::sql::BatchDelete {
            sqlite: $crate::sql::delete_batch!(sqlite, $name, $table, $condition, $sqlite_key),
            postgres: $crate::sql::delete_batch!(
                postgres,
                $name,
                $table,
                $condition,
                $postgres_key
            ),
            sqlite_rows_max: $sqlite_rows_max,
            postgres_rows_max: $postgres_rows_max,
        }
    };
    (sqlite, $name:expr, $table:literal, $condition:literal, $key:literal) => {
        $crate::sql::delete_batch!($name, $table, $condition, $key, "")
    };
    (postgres, $name:expr, $table:literal, $condition:literal, $key:literal) => {
        $crate::sql::delete_batch!($name, $table, $condition, $key, " FOR UPDATE SKIP LOCKED")
    };
    ($name:expr, $table:literal, $condition:literal, $key:literal, $lock:literal) => {
        concat!(
            "-- ",
            $name,
            "\nDELETE FROM ",
            $table,
            " WHERE (",
            $key,
            ") IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE ",
            $condition,
            " LIMIT $2",
            $lock,
            ")"
        )
    };
}
pub(crate) use delete_batch;

/// The outcome of a transaction, which decides whether the transaction commits.
pub(crate) trait Outcome {
    fn should_commit(&self) -> bool {
        true
    }
}

impl Outcome for () {}

impl Outcome for usize {}

impl Outcome for ReplayedDeliveries {}

/// A stored key.
impl Outcome for Sealed {}

/// Without a removed row, there is nothing to commit.
impl Outcome for UnlockRemoval {
    fn should_commit(&self) -> bool {
        *self == Self::Removed
    }
}

impl Outcome for TrimmedDeliveries {}

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
