//! Tokens: written together, found by id, deleted.

use crate::{
    id::TokenId,
    policy::{LookupPermit, Permit},
    store::{ChangeOutcome, StoreFuture},
    time::Timestamp,
    token::{BatchOutcome, DeleteToken, StoredToken, TokenBatch},
};

/// Tokens: written together, found by id, deleted.
/// Each method is one transaction.
pub trait TokenStore: Send + Sync {
    /// Writes all of these or none of them, and says what became of each, or what stood in the way
    /// of which. A later one finds what an earlier one wrote.
    fn write_tokens(
        &self,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'_, BatchOutcome>;

    /// A live token. Never waits for a writer.
    fn find_token<'a>(
        &'a self,
        lookup: LookupPermit,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>>;

    /// Those of these tokens that are live, each where its id stands, all as they were at one
    /// instant.
    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>>;

    /// Deletes a live token if it still has the revision it was read with, and with it its cvc,
    /// its indexes and its data in remembered answers.
    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome>;
}
