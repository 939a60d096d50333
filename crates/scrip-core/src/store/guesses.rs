//! Counts of the guessing budget and the search budget.

use crate::{
    id::TenantId,
    policy::guessing_budget::{GuessBucket, GuessRecord},
    store::StoreFuture,
    time::Timestamp,
};

/// The stored counts of the budgets. A supertrait of [`crate::store::Store`].
pub trait GuessStore {
    /// Every unexpired record of these buckets. Never waits for a writer.
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>>;

    /// Stores the records; an existing record gets the later of the two times.
    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()>;

    /// Deletes some of the records that had expired by this time; returns how many.
    fn delete_expired_guesses(&self, expired_by: Timestamp) -> StoreFuture<'_, usize>;
}
