//! Tokens: written together, found by id, deleted.

use crate::{
    id::TokenId,
    policy::{Inquiry, Permit},
    store::{Changed, StoreFuture},
    time::Timestamp,
    token::{Batched, DeleteToken, StoredToken, TokenBatch},
};

/// Tokens: written together, found by id, deleted.
/// Each method is one transaction.
pub trait TokenStore: Send + Sync {
    /// Writes all of these or none of them, and says what became of each, or what stood in the way
    /// of which. A later one finds what an earlier one wrote.
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched>;

    /// A live token. Never waits for a writer.
    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>>;

    /// Those of these tokens that are live, each where its id stands, all as they were at one
    /// instant.
    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>>;

    /// Deletes a live token if it still has the revision it was read with, and with it its cvc,
    /// its indexes and its data in remembered answers.
    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed>;
}
