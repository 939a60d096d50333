//! Remembered answers: what commits beside an effect.

use std::panic::{AssertUnwindSafe, catch_unwind};

use scrip_core::{
    answer::AnswerRecord,
    id::TokenId,
    operations::claim_answer::ANSWER_RETENTION,
    store::{AskedAnswer, Beside, Outcome, Render, StoreError, StoredAnswer, StoredPart},
    time::Timestamp,
};
use scrip_seal::Sealed;
use tokio_postgres::Row;

use crate::postgres::{
    row::{NO_TOKEN, column, containers, sealed, time},
    statement::{Parameters, Single, PostgresClient, execute, query, unavailable},
    transaction::Transaction,
};

const FORGOTTEN_AT_ONCE: i64 = 256;

/// What is to be remembered of a write. It is made once, and of what became of it then.
pub(super) enum Answer {
    Nothing,
    Due(Render),
    Made(Vec<Outcome>, Option<AnswerRecord>),
    /// Whoever should have made it panicked.
    Broken,
}

impl Answer {
    pub(super) fn due(render: Option<Render>) -> Self {
        render.map_or(Self::Nothing, Self::Due)
    }

    /// A write that is done a second time, because the first was taken back, may end in another
    /// way. Then its client asks again.
    pub(super) fn to(&mut self, outcomes: &[Outcome]) -> Result<Option<&AnswerRecord>, StoreError> {
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

/// The row is what makes a request be answered once: whoever comes second, on whichever node, finds
/// it there and is taken back.
const INSERT_ANSWER: &str = "
-- insert_answer
WITH answered AS (
    INSERT INTO answers (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, digest) DO NOTHING
    RETURNING digest
), shown AS (
    INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT $1, answered.digest, it.at, it.token, it.sealed
    FROM answered
    CROSS JOIN unnest($5::bigint[], $6::bigint[], $7::bytea[]) AS it (at, token, sealed)
)
    SELECT 1 FROM answered";

const REPLACE_FORGOTTEN: &str = "
-- replace_forgotten
DELETE FROM answers WHERE tenant = $1 AND digest = $2 AND created_at <= $3";

/// `numbers` are those of the tokens that its parts show.
pub(super) async fn insert_answer(
    transaction: &Transaction,
    answer: &AnswerRecord,
    numbers: &[i64],
) -> Result<(), StoreError> {
    if insert(transaction, answer, numbers).await? {
        return Ok(());
    }
    let forgotten = answer.created_at.before(ANSWER_RETENTION).unix_ms;
    let digest = answer.digest.as_slice();
    let old: Parameters<'_, 3> = [&transaction.tenant.0, &digest, &forgotten];
    let replaced = transaction.execute_raw(REPLACE_FORGOTTEN, &old).await?;
    if replaced > 0 && insert(transaction, answer, numbers).await? {
        return Ok(());
    }
    Err(StoreError::Answered)
}

async fn insert(
    transaction: &Transaction,
    answer: &AnswerRecord,
    numbers: &[i64],
) -> Result<bool, StoreError> {
    let digest = answer.digest.as_slice();
    let (mut at, mut tokens, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for part in &answer.parts {
        let shown = numbers.get(part.at).ok_or(StoreError::Corrupt("an answer shows no token"))?;
        at.push(i64::try_from(part.at).unwrap_or(i64::MAX));
        tokens.push(*shown);
        parts.push(part.sealed.as_bytes());
    }
    let (created_at, head) = (answer.created_at.unix_ms, answer.head.as_bytes());
    let tenant = transaction.tenant.0;
    let rows = transaction
        .rows(INSERT_ANSWER, &[&tenant, &digest, &created_at, &head, &at, &tokens, &parts])
        .await?;
    Ok(!rows.is_empty())
}

/// The audit record and the answer of an effect that is not a token's.
pub(super) async fn insert_beside(
    transaction: &mut Transaction,
    beside: &Beside,
    outcome: &'static str,
) -> Result<(), StoreError> {
    transaction.append_record(&beside.audit, &beside.entity, outcome);
    match &beside.answer {
        None => Ok(()),
        Some(answer) => insert_answer(transaction, answer, &[]).await,
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

pub(super) async fn find_answer(
    client: &impl PostgresClient,
    asked: &AskedAnswer,
) -> Result<Option<StoredAnswer>, StoreError> {
    let AskedAnswer { tenant, digest, now, since } = asked;
    let parameters: Parameters<'_, 4> =
        [&tenant.0, &digest.as_slice(), &since.unix_ms, &now.unix_ms];
    let rows = query(client, FIND_ANSWER, &parameters).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let parts = rows.iter().filter_map(|it| stored_part(it).transpose());
    Ok(Some(StoredAnswer {
        digest: *digest,
        created_at: time(first, 1)?,
        head: sealed(first, 0)?,
        parts: parts.collect::<Result<_, _>>()?,
    }))
}

fn stored_part(row: &Row) -> Result<Option<StoredPart>, StoreError> {
    let Some(at) = column::<Option<i64>>(row, 2)? else { return Ok(None) };
    Ok(Some(StoredPart {
        at: usize::try_from(at).map_err(|_| NO_TOKEN)?,
        token: TokenId::parse(column(row, 3)?).map_err(|_| NO_TOKEN)?,
        containers: containers(row, 4)?,
        sealed: Sealed::from_stored(column(row, 5)?),
    }))
}

/// Whoever else forgets at the same time forgets others.
const FORGET_ANSWERS: &str = "
-- forget_answers
DELETE FROM answers WHERE (tenant, digest) IN (
    SELECT tenant, digest FROM answers WHERE created_at <= $1 ORDER BY created_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)";

pub(super) async fn forget_answers(
    client: &Single<'_>,
    before: Timestamp,
) -> Result<usize, StoreError> {
    let forgotten = execute(client, FORGET_ANSWERS, &[&before.unix_ms, &FORGOTTEN_AT_ONCE]).await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}
