//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    change::ChangeOutcome,
    token::{StoredTokenIntent, TokenIntentRecord},
    types::{
        StoreError,
        id::{TenantId, TokenIntentId},
    },
};

use crate::{
    shared::tokens::rows::decode_cvc,
    sql::{ColumnReader, Parameter, WriteTransaction, parameters, read_optional, read_required},
};

/// Decodes the columns type, fingerprint, creator, creation time, expiry, body, expiry of the CVC, CVC
/// and containers.
pub(crate) fn decode_token_intent(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    decode_columns(row, id).map_err(|_| StoreError::Corrupt("a token intent's row is invalid"))
}

fn decode_columns(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    let record = TokenIntentRecord {
        id,
        token_type: read_required(row, 0)?,
        fingerprint: read_optional(row, 1)?,
        containers: read_required(row, 8)?,
        created_by: read_required(row, 2)?,
        created_at: read_required(row, 3)?,
        expires_at: read_required(row, 4)?,
        body: read_required(row, 5)?,
    };
    Ok(StoredTokenIntent { record, cvc: decode_cvc(row, 6)? })
}

/// The columns tenant, id, type, fingerprint, containers, creator, creation time, expiry and body.
pub(crate) fn insert_intent_parameters(
    tenant: TenantId,
    record: &TokenIntentRecord,
) -> [Parameter<'_>; 9] {
    parameters![
        tenant,
        record.id,
        record.token_type,
        record.fingerprint.as_ref(),
        record.containers.to_text(),
        record.created_by,
        record.created_at,
        record.expires_at,
        &record.body,
    ]
}

const DELETE_TOKEN_INTENT: &str = "
-- delete_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2 AND expires_at > $3";

/// Deletes an intent. A conversion to a token calls this function in its transaction. A second
/// request does not find the intent.
pub(crate) async fn consume_token_intent<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    id: TokenIntentId,
    audit: &AuditRecord,
    outcome: &'static str,
) -> Result<ChangeOutcome, StoreError> {
    let key = parameters![tenant, id, audit.at];
    if transaction.execute(DELETE_TOKEN_INTENT, &key).await? == 0 {
        return Ok(ChangeOutcome::Stale);
    }
    transaction.append_audit_record(tenant, audit, &id.to_string(), outcome).await?;
    Ok(ChangeOutcome::Done)
}
