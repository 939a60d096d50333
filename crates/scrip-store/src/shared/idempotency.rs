//! Idempotency records: a request with an idempotency key takes effect once.

use scrip_core::{
    change::CommitExtras,
    idempotency::{IdempotencyRecord, ResponseTokenData, StoredResponse, StoredTokenData},
    operations::claim_idempotency_key::RESPONSE_RETENTION,
    types::{StoreError, id::TenantId},
};

use crate::sql::{ColumnReader, NO_TOKEN, WriteTransaction, parameters, read_required};

const DELETE_EXPIRED_RESPONSE: &str = "
-- delete_expired_response
DELETE FROM idempotency_records WHERE tenant = $1 AND digest = $2 AND created_at <= $3";

/// Inserts an idempotency record. If the key has a record that has not expired, the whole write
/// fails.
pub(crate) async fn insert_idempotency_record<T: WriteTransaction>(
    transaction: &T,
    tenant: TenantId,
    record: &IdempotencyRecord,
    token_numbers: &[i64],
) -> Result<(), StoreError> {
    if transaction.try_insert_idempotency_record(tenant, record, token_numbers).await? {
        return Ok(());
    }
    let cutoff = record.created_at.minus(RESPONSE_RETENTION);
    let expired_record = parameters![tenant, &record.digest, cutoff];
    let deleted = transaction.execute(DELETE_EXPIRED_RESPONSE, &expired_record).await?;
    if deleted > 0
        && transaction.try_insert_idempotency_record(tenant, record, token_numbers).await?
    {
        return Ok(());
    }
    Err(StoreError::AlreadyCompleted)
}

/// Writes the audit record, the deliveries and the idempotency record of a change that is not a token
/// write.
pub(crate) async fn insert_commit_extras<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    extras: &CommitExtras,
    outcome: &'static str,
) -> Result<(), StoreError> {
    transaction.append_audit_record(tenant, &extras.audit, &extras.entity, outcome).await?;
    transaction.insert_deliveries(&extras.deliveries).await?;
    match &extras.idempotency {
        None => Ok(()),
        Some(record) => insert_idempotency_record(transaction, tenant, record, &[]).await,
    }
}

/// Returns the number of the token to which a part of a stored response belongs.
pub(crate) fn find_token_number(
    token_data: &ResponseTokenData,
    token_numbers: &[i64],
) -> Result<i64, StoreError> {
    token_numbers
        .get(token_data.write_index)
        .copied()
        .ok_or(StoreError::Corrupt("a stored response refers to no token"))
}

/// Decodes the columns sealed head and creation time. The token data is loaded separately.
pub(crate) fn decode_stored_response(
    row: &dyn ColumnReader,
    digest: [u8; 32],
) -> Result<StoredResponse, StoreError> {
    let (head, created_at) = (read_required(row, 0)?, read_required(row, 1)?);
    Ok(StoredResponse { digest, created_at, head, token_data: Vec::new() })
}

/// Decodes the columns write index, id and containers of the token, and sealed data.
pub(crate) fn decode_stored_token_data(
    row: &dyn ColumnReader,
    first_column: usize,
) -> Result<StoredTokenData, StoreError> {
    let column = |offset: usize| first_column.saturating_add(offset);
    let decode = || {
        Ok(StoredTokenData {
            write_index: read_required(row, column(0))?,
            token: read_required(row, column(1))?,
            containers: read_required(row, column(2))?,
            sealed: read_required(row, column(3))?,
        })
    };
    decode().map_err(|_: StoreError| NO_TOKEN)
}
