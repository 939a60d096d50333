//! Responses that are stored for repeated requests with the same idempotency key.

use crate::{
    idempotency::{ClaimOutcome, IdempotencyLookup},
    store::StoreFuture,
    time::Timestamp,
};

/// Responses that are stored for repeated requests with the same idempotency key.
/// Each method is one transaction.
pub trait IdempotencyStore: Send + Sync {
    /// Claims the right to answer a request with this idempotency key, or finds its answer.
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome>;

    /// Forgets some of the answers older than `before`; how many.
    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
