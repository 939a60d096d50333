//! Differences between the engines, hidden so that a store trait is implemented once for both.

use scrip_core::{
    Error,
    change::ChangeOutcome,
    keys::UnlockRemoval,
    store::deliveries::{ReplayedDeliveries, TrimmedDeliveries},
};
use scrip_seal::Sealed;

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
