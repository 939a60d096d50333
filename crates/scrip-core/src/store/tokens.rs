//! Tokens and token intents: batch writes, lookups by id, lists and searches, deletion.

use crate::{
    Timestamp,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    events::NewDelivery,
    listing::{NewestTokens, NewestTokensScan, ScannedTokens, TokenScan},
    policy::{LookupPermit, Permit},
    token::{StoredToken, StoredTokenIntent},
    token_batch::{BatchOutcome, DeleteToken, TokenBatch},
    types::{
        StoreFuture,
        id::{TokenId, TokenIntentId},
    },
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

/// Lists and searches of tokens. Each method is one transaction.
pub trait ListingStore: Send + Sync {
    /// A chunk of the tenant's tokens, sorted by container, then by creation, both descending.
    fn scan_tokens(&self, lookup: LookupPermit, scan: TokenScan) -> StoreFuture<'_, ScannedTokens>;

    /// The newest tokens of some containers, for pages with totals.
    fn find_newest_tokens(
        &self,
        lookup: LookupPermit,
        scan: NewestTokensScan,
    ) -> StoreFuture<'_, NewestTokens>;
}

/// Token intents. Each method is one transaction.
pub trait TokenIntentStore: Send + Sync {
    fn insert_token_intent(
        &self,
        lookup: LookupPermit,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()>;

    /// A live intent. Never waits for a writer.
    fn find_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>>;

    /// Deletes a live intent with its CVC; writes these deliveries with it.
    fn delete_token_intent(
        &self,
        lookup: LookupPermit,
        id: TokenIntentId,
        audit: AuditRecord,
        deliveries: Vec<NewDelivery>,
    ) -> StoreFuture<'_, ChangeOutcome>;
}
