//! Remembered answers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use scrip_core::{
    idempotency::{AnswerRecord, AskedAnswer, StoredAnswer},
    store::StoreError,
    token::{Outcome, Render},
};

use crate::{
    postgres::{PostgresStore, engine::fault::unavailable},
    rules::answers::{stored_answer, stored_part},
    sql::{ColumnReader, Statements, optional, parameters},
};

/// What is to be remembered of a write. It is made once, and of what became of it then.
pub(crate) enum Answer {
    Nothing,
    Due(Render),
    Made(Vec<Outcome>, Option<AnswerRecord>),
    /// Whoever should have made it panicked.
    Broken,
}

impl Answer {
    pub(crate) fn due(render: Option<Render>) -> Self {
        render.map_or(Self::Nothing, Self::Due)
    }

    /// A write that is done a second time, because the first was taken back, may end in another
    /// way. Then its client asks again.
    pub(crate) fn to(&mut self, outcomes: &[Outcome]) -> Result<Option<&AnswerRecord>, StoreError> {
        if let Self::Due(_) = self
            && let Self::Due(render) = std::mem::replace(self, Self::Broken)
            // One that panics has company that must not suffer from it.
            && let Ok(made) = catch_unwind(AssertUnwindSafe(|| render(outcomes)))
        {
            *self = Self::Made(outcomes.to_vec(), made);
        }
        match self {
            Self::Nothing => Ok(None),
            Self::Made(of, answer) if of.as_slice() == outcomes => Ok(answer.as_ref()),
            Self::Made(..) => Err(StoreError::Busy),
            Self::Due(_) | Self::Broken => Err(unavailable("an answer was not made")),
        }
    }
}

/// One row for each part, and one without any where there is none to show.
const FIND_ANSWER: &str = "
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
    pub(crate) async fn find_answer(
        &self,
        asked: AskedAnswer,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        let AskedAnswer { tenant, digest, now, since } = asked;
        let answer = |row: &dyn ColumnReader| {
            let part = optional::<i64>(row, 2)?.map(|_| stored_part(row, 2)).transpose()?;
            Ok((stored_answer(row, digest)?, part))
        };
        let of = parameters![tenant, &digest, since, now];
        let rows = self.of(tenant).query(FIND_ANSWER, &of, answer).await?;
        let (mut answers, parts): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let parts = parts.into_iter().flatten().collect();
        Ok(answers.pop().map(|answer| StoredAnswer { parts, ..answer }))
    }
}
