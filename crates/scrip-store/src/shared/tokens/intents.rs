//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, TokenIntentId},
    store::{ChangeOutcome, StoreError},
    token::{StoredTokenIntent, TokenIntentRecord},
};

use crate::{
    shared::tokens::rows::decode_cvc,
    sql::{ColumnReader, Parameter, WriteTransaction, optional, parameters, required},
};

/// In the order that [`stored_token_intent`] reads them, of a row called `it` and its code.
macro_rules! intent_columns {
    () => {
        "it.type, it.fingerprint, it.created_by, it.created_at, it.expires_at, it.body, \
         intent_cvcs.expires_at, intent_cvcs.sealed, it.containers"
    };
}
pub(crate) use intent_columns;

pub(crate) fn stored_token_intent(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    decode_columns(row, id).map_err(|_| StoreError::Corrupt("an intent's row is not one of ours"))
}

fn decode_columns(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    let record = TokenIntentRecord {
        id,
        token_type: required(row, 0)?,
        fingerprint: optional(row, 1)?,
        containers: required(row, 8)?,
        created_by: required(row, 2)?,
        created_at: required(row, 3)?,
        expires_at: required(row, 4)?,
        body: required(row, 5)?,
    };
    Ok(StoredTokenIntent { record, cvc: decode_cvc(row, 6)? })
}

/// In the order of [`inserted_intent`].
macro_rules! insert_intent_columns {
    () => {
        "tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body"
    };
}
pub(crate) use insert_intent_columns;

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

/// Deletes it, or makes a token of it in the same transaction: whoever comes second finds it gone.
pub(crate) async fn consume_token_intent<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    id: TokenIntentId,
    audit: &AuditRecord,
    outcome: &'static str,
) -> Result<ChangeOutcome, StoreError> {
    let live = parameters![tenant, id, audit.at];
    if transaction.execute(DELETE_TOKEN_INTENT, &live).await? == 0 {
        return Ok(ChangeOutcome::Stale);
    }
    transaction.append_audit_record(tenant, audit, &id.to_string(), outcome).await?;
    Ok(ChangeOutcome::Done)
}
