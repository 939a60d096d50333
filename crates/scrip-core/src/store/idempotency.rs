//! Stored responses for repeated requests with the same idempotency key.

use crate::{
    Timestamp,
    change::ChangeOutcome,
    idempotency::{CallRecordKey, ClaimOutcome, IdempotencyLookup, IdempotencyRecord},
    policy::LookupPermit,
    read_log::ReadLogBatch,
    types::StoreFuture,
};

/// Stored responses for repeated requests with the same idempotency key. Each method is one
/// transaction.
pub trait IdempotencyStore: Send + Sync {
    /// Claims an idempotency key for a request, or finds its stored response.
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome>;

    /// Inserts the record of a proxied call that is about to be sent, with the entries of the call
    /// in the audit log. Fails if the key has a record that has not expired.
    fn insert_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ()>;

    /// Replaces the record of a proxied call with the same key and creation time by its outcome.
    fn replace_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome>;

    /// Deletes the record of a proxied call that was not sent.
    fn delete_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        key: CallRecordKey,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome>;

    /// Deletes some of the responses older than `before`; returns how many.
    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
