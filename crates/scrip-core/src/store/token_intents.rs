//! Token intents.

use crate::{
    audit::AuditRecord,
    id::TokenIntentId,
    policy::Inquiry,
    store::{Beside, Changed, StoreFuture},
    time::Timestamp,
    token::StoredTokenIntent,
};

/// Token intents.
/// Each method is one transaction.
pub trait TokenIntentStore: Send + Sync {
    fn insert_token_intent(
        &self,
        inquiry: Inquiry,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> StoreFuture<'_, ()>;

    /// A live intent. Never waits for a writer.
    fn find_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<StoredTokenIntent>>;

    /// Deletes a live intent, with its cvc.
    fn delete_token_intent(
        &self,
        inquiry: Inquiry,
        id: TokenIntentId,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Changed>;
}
