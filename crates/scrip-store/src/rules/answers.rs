//! Remembered answers: a request with an idempotency key is answered once.

use scrip_core::{
    id::TenantId,
    idempotency::{AnswerPart, AnswerRecord, StoredAnswer, StoredPart},
    operations::claim_answer::ANSWER_RETENTION,
    store::{Beside, StoreError},
};

use crate::{
    rules::tokens::rows::NO_TOKEN,
    sql::{ColumnReader, WriteTransaction, parameters, required},
};

const REPLACE_FORGOTTEN: &str = "
-- replace_forgotten
DELETE FROM answers WHERE tenant = $1 AND digest = $2 AND created_at <= $3";

/// An answer that is there already makes the whole write fail, unless its time is over.
pub(crate) async fn insert_answer<T: WriteTransaction>(
    transaction: &T,
    tenant: TenantId,
    answer: &AnswerRecord,
    tokens: &[i64],
) -> Result<(), StoreError> {
    if transaction.try_insert_answer(tenant, answer, tokens).await? {
        return Ok(());
    }
    let forgotten = answer.created_at.before(ANSWER_RETENTION);
    let old = parameters![tenant, &answer.digest, forgotten];
    let replaced = transaction.execute(REPLACE_FORGOTTEN, &old).await?;
    if replaced > 0 && transaction.try_insert_answer(tenant, answer, tokens).await? {
        return Ok(());
    }
    Err(StoreError::Answered)
}

/// The audit record and the answer of an effect that is not a token's.
pub(crate) async fn insert_beside<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    beside: &Beside,
    outcome: &'static str,
) -> Result<(), StoreError> {
    transaction.append(tenant, &beside.audit, &beside.entity, outcome).await?;
    match &beside.answer {
        None => Ok(()),
        Some(answer) => insert_answer(transaction, tenant, answer, &[]).await,
    }
}

/// The number of the token that a part of an answer shows.
pub(crate) fn shown_token(part: &AnswerPart, tokens: &[i64]) -> Result<i64, StoreError> {
    tokens.get(part.at).copied().ok_or(StoreError::Corrupt("an answer shows no token"))
}

/// Columns: the head and when it was made. It has no parts yet.
pub(crate) fn stored_answer(
    row: &dyn ColumnReader,
    digest: [u8; 32],
) -> Result<StoredAnswer, StoreError> {
    let (head, created_at) = (required(row, 0)?, required(row, 1)?);
    Ok(StoredAnswer { digest, created_at, head, parts: Vec::new() })
}

/// Columns: place, id and containers of its token, and the part itself.
pub(crate) fn stored_part(row: &dyn ColumnReader, from: usize) -> Result<StoredPart, StoreError> {
    let column = |offset: usize| from.saturating_add(offset);
    let decoded = || {
        Ok(StoredPart {
            at: required(row, column(0))?,
            token: required(row, column(1))?,
            containers: required(row, column(2))?,
            sealed: required(row, column(3))?,
        })
    };
    decoded().map_err(|_: StoreError| NO_TOKEN)
}
