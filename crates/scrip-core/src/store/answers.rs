//! Responses that are stored for repeated requests with the same idempotency key.

use crate::{
    idempotency::{AskedAnswer, Claimed},
    store::StoreFuture,
    time::Timestamp,
};

/// Responses that are stored for repeated requests with the same idempotency key.
/// Each method is one transaction.
pub trait AnswerStore: Send + Sync {
    /// Claims the right to answer a request with this idempotency key, or finds its answer.
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed>;

    /// Forgets some of the answers older than `before`; how many.
    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
