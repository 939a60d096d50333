//! Remembered answers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use scrip_core::{
    idempotency::{IdempotencyLookup, IdempotencyRecord, StoredResponse},
    store::StoreError,
    token::{BuildIdempotencyRecord, WriteOutcome},
};

use crate::{
    postgres::{PostgresStore, engine::error::unavailable},
    shared::idempotency::{decode_stored_response, decode_stored_token_data},
    sql::{ColumnReader, Statements, optional, parameters},
};

/// What is to be remembered of a write. It is made once, and of what became of it then.
pub(crate) enum PendingIdempotencyRecord {
    None,
    NotBuilt(BuildIdempotencyRecord),
    Built(Vec<WriteOutcome>, Option<IdempotencyRecord>),
    /// Whoever should have made it panicked.
    Panicked,
}

impl PendingIdempotencyRecord {
    pub(crate) fn new(render: Option<BuildIdempotencyRecord>) -> Self {
        render.map_or(Self::None, Self::NotBuilt)
    }

    /// A write that is done a second time, because the first was taken back, may end in another
    /// way. Then its client asks again.
    pub(crate) fn build_for(
        &mut self,
        outcomes: &[WriteOutcome],
    ) -> Result<Option<&IdempotencyRecord>, StoreError> {
        if let Self::NotBuilt(_) = self
            && let Self::NotBuilt(render) = std::mem::replace(self, Self::Panicked)
            // One that panics has company that must not suffer from it.
            && let Ok(created) = catch_unwind(AssertUnwindSafe(|| render(outcomes)))
        {
            *self = Self::Built(outcomes.to_vec(), created);
        }
        match self {
            Self::None => Ok(None),
            Self::Built(key, answer) if key.as_slice() == outcomes => Ok(answer.as_ref()),
            Self::Built(..) => Err(StoreError::Busy),
            Self::NotBuilt(_) | Self::Panicked => Err(unavailable("an answer was not made")),
        }
    }
}

/// One row for each part, and one without any where there is none to show.
const FIND_RESPONSE: &str = "
-- find_answer
SELECT answers.head, answers.created_at, shown.at, shown.id, shown.containers, shown.sealed
FROM answers LEFT JOIN LATERAL (
    SELECT answer_data.at, tokens.id, tokens.containers, answer_data.sealed
    FROM answer_data
    JOIN tokens ON tokens.tenant = answer_data.tenant AND tokens.number = answer_data.token
    WHERE answer_data.tenant = answers.tenant AND answer_data.digest = answers.digest
        AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
) AS shown ON true
WHERE answers.tenant = $1 AND answers.digest = $2 AND answers.created_at > $3
ORDER BY shown.at";

impl PostgresStore {
    pub(crate) async fn find_stored_response(
        &self,
        lookup: IdempotencyLookup,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let IdempotencyLookup { tenant, digest, now, since } = lookup;
        let answer = |row: &dyn ColumnReader| {
            let part =
                optional::<i64>(row, 2)?.map(|_| decode_stored_token_data(row, 2)).transpose()?;
            Ok((decode_stored_response(row, digest)?, part))
        };
        let key = parameters![tenant, &digest, since, now];
        let rows = self.for_tenant(tenant).query(FIND_RESPONSE, &key, answer).await?;
        let (mut responses, parts): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let parts = parts.into_iter().flatten().collect();
        Ok(responses.pop().map(|answer| StoredResponse { token_data: parts, ..answer }))
    }
}
