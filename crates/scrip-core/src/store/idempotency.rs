//! Stored responses for repeated requests with the same idempotency key.

use crate::{
    idempotency::{ClaimOutcome, IdempotencyLookup},
    store::StoreFuture,
    time::Timestamp,
};

/// Stored responses for repeated requests with the same idempotency key. Each method is one
/// transaction.
pub trait IdempotencyStore: Send + Sync {
    /// Claims an idempotency key for a request, or finds its stored response.
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome>;

    /// Deletes some of the responses older than `before`; returns how many.
    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
