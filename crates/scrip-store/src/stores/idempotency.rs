//! Responses that are stored for repeated requests with the same idempotency key.

use scrip_core::{
    audit::LogKind,
    idempotency::{ClaimOutcome, IdempotencyLookup},
    store::{IdempotencyStore, StoreFuture},
    time::Timestamp,
};

use crate::sql::{BatchDelete, delete_batch, for_both_engines};

/// SQLite stores records in order of creation, so the oldest records are at the start of the table.
const DELETE_EXPIRED_RESPONSES: BatchDelete = BatchDelete {
    sqlite: "
-- delete_expired_responses
DELETE FROM idempotency_records WHERE created_at <= $1 AND seq IN (
    SELECT seq FROM idempotency_records ORDER BY seq LIMIT $2
)",
    postgres: delete_batch!(
        postgres,
        "delete_expired_responses",
        "idempotency_records",
        "created_at <= $1 ORDER BY created_at",
        "tenant, digest"
    ),
    sqlite_rows_max: 256,
    postgres_rows_max: 256,
};

for_both_engines! {
impl IdempotencyStore {
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome> {
        Box::pin(async move {
            let Some(claim) = self.claims.try_claim(lookup.digest) else { return Ok(ClaimOutcome::InFlight) };
            let stored_response = self.find_stored_response(lookup).await?;
            Ok(stored_response.map_or(ClaimOutcome::Claimed(claim), ClaimOutcome::Completed))
        })
    }

    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_batch(LogKind::Audit, &DELETE_EXPIRED_RESPONSES, before))
    }
}
}
