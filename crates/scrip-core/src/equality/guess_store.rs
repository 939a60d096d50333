//! The store of the counts of the guessing budget and the search budget.
//!
//! The trait is here, not in [`store`](crate::store), because the
//! [`ledger`](crate::equality::ledger) needs only this part of the store.

use crate::{
    Timestamp,
    equality::{GuessBucket, GuessRecord},
    types::{StoreFuture, id::TenantId},
};

/// The stored counts of the budgets. A supertrait of [`crate::store::Store`].
pub trait GuessStore: Send + Sync {
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
