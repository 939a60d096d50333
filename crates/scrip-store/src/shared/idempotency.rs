//! Remembered answers: a request with an idempotency key is answered once.

use scrip_core::{
    id::TenantId,
    idempotency::{IdempotencyRecord, ResponseTokenData, StoredResponse, StoredTokenData},
    operations::claim_idempotency_key::RESPONSE_RETENTION,
    store::{CommitExtras, StoreError},
};

use crate::{
    shared::tokens::rows::NO_TOKEN,
    sql::{ColumnReader, WriteTransaction, parameters, required},
};

const DELETE_EXPIRED_RESPONSE: &str = "
-- replace_forgotten
DELETE FROM answers WHERE tenant = $1 AND digest = $2 AND created_at <= $3";

/// An answer that is there already makes the whole write fail, unless its time is over.
pub(crate) async fn insert_idempotency_record<T: WriteTransaction>(
    transaction: &T,
    tenant: TenantId,
    record: &IdempotencyRecord,
    token_numbers: &[i64],
) -> Result<(), StoreError> {
    if transaction.try_insert_idempotency_record(tenant, record, token_numbers).await? {
        return Ok(());
    }
    let forgotten = record.created_at.minus(RESPONSE_RETENTION);
    let old = parameters![tenant, &record.digest, forgotten];
    let replaced = transaction.execute(DELETE_EXPIRED_RESPONSE, &old).await?;
    if replaced > 0
        && transaction.try_insert_idempotency_record(tenant, record, token_numbers).await?
    {
        return Ok(());
    }
    Err(StoreError::AlreadyCompleted)
}

/// The audit record and the answer of an effect that is not a token's.
pub(crate) async fn insert_commit_extras<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    extras: &CommitExtras,
    outcome: &'static str,
) -> Result<(), StoreError> {
    transaction.append_audit_record(tenant, &extras.audit, &extras.entity, outcome).await?;
    match &extras.idempotency {
        None => Ok(()),
        Some(answer) => insert_idempotency_record(transaction, tenant, answer, &[]).await,
    }
}

/// The number of the token that a part of an answer shows.
pub(crate) fn token_number_of(
    part: &ResponseTokenData,
    token_numbers: &[i64],
) -> Result<i64, StoreError> {
    token_numbers
        .get(part.write_index)
        .copied()
        .ok_or(StoreError::Corrupt("an answer shows no token"))
}

/// Columns: the head and when it was made. It has no parts yet.
pub(crate) fn decode_stored_response(
    row: &dyn ColumnReader,
    digest: [u8; 32],
) -> Result<StoredResponse, StoreError> {
    let (head, created_at) = (required(row, 0)?, required(row, 1)?);
    Ok(StoredResponse { digest, created_at, head, token_data: Vec::new() })
}

/// Columns: place, id and containers of its token, and the part itself.
pub(crate) fn decode_stored_token_data(
    row: &dyn ColumnReader,
    first_column: usize,
) -> Result<StoredTokenData, StoreError> {
    let column = |offset: usize| first_column.saturating_add(offset);
    let decoded = || {
        Ok(StoredTokenData {
            write_index: required(row, column(0))?,
            token: required(row, column(1))?,
            containers: required(row, column(2))?,
            sealed: required(row, column(3))?,
        })
    };
    decoded().map_err(|_: StoreError| NO_TOKEN)
}
