//! Tokens: batch writes, lookups by id, deletion.

use crate::{
    Timestamp,
    change::ChangeOutcome,
    policy::{LookupPermit, Permit},
    token::StoredToken,
    token_batch::{BatchOutcome, DeleteToken, TokenBatch},
    types::{StoreFuture, id::TokenId},
};

/// Tokens: batch writes, lookups by id, deletion. Each method is one transaction.
pub trait TokenStore: Send + Sync {
    /// Writes all tokens of the batch or none, and returns the outcome of each, or the conflicts.
    /// Later writes see earlier writes of the same batch.
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

    /// The live tokens among these ids, each at the position of its id, all read in one
    /// transaction.
    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>>;

    /// Deletes a live token if it still has the revision that was read, with its CVC, its indexes
    /// and its data in stored responses.
    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome>;
}
