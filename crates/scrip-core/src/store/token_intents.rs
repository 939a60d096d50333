//! Token intents.

use crate::{
    Timestamp,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    events::NewDelivery,
    policy::LookupPermit,
    token::StoredTokenIntent,
    types::{StoreFuture, id::TokenIntentId},
};

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
