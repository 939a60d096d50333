//! Responses that are stored for repeated requests with the same idempotency key.

use scrip_core::{
    audit::Log,
    idempotency::{AskedAnswer, Claimed},
    store::{AnswerStore, StoreFuture},
    time::Timestamp,
};

use crate::sql::{DeleteSome, delete_some, for_both_engines};

/// In the embedded engine answers lie in the order of their making, so the old ones are found at the
/// front.
const FORGET_ANSWERS: DeleteSome = DeleteSome {
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
impl AnswerStore {
    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            let Some(claim) = self.claims.take(asked.digest) else { return Ok(Claimed::InFlight) };
            let found = self.find_answer(asked).await?;
            Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
        })
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_some(Log::Audit, &FORGET_ANSWERS, before))
    }
}
}
