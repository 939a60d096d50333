//! Responses that are stored for repeated requests with the same idempotency key.

use scrip_core::{
    audit::LogKind,
    idempotency::{ClaimOutcome, IdempotencyLookup},
    store::{IdempotencyStore, StoreFuture},
    time::Timestamp,
};

use crate::sql::{DeleteSome, delete_some, for_both_engines};

/// In the embedded engine answers lie in the order of their making, so the old ones are found at the
/// front.
const DELETE_EXPIRED_RESPONSES: DeleteSome = DeleteSome {
    sqlite: "
-- forget_answers
DELETE FROM answers WHERE created_at <= $1 AND seq IN (
    SELECT seq FROM answers ORDER BY seq LIMIT $2
)",
    postgres: delete_some!(
        postgres,
        "forget_answers",
        "answers",
        "created_at <= $1 ORDER BY created_at",
        "tenant, digest"
    ),
    sqlite_rows_max: 256,
    postgres_rows_max: 256,
};

for_both_engines! {
impl IdempotencyStore {
    fn claim_idempotency_key(&self, asked: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome> {
        Box::pin(async move {
            let Some(claim) = self.claims.try_claim(asked.digest) else { return Ok(ClaimOutcome::InFlight) };
            let found = self.find_stored_response(asked).await?;
            Ok(found.map_or(ClaimOutcome::Claimed(claim), ClaimOutcome::Completed))
        })
    }

    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_some(LogKind::Audit, &DELETE_EXPIRED_RESPONSES, before))
    }
}
}
