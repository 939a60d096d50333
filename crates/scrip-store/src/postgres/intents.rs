//! Token intents.

use scrip_core::{
    audit::AuditRecord,
    id::{ApplicationId, TenantId, TokenIntentId},
    store::{Beside, Changed, StoreError},
    time::Timestamp,
    token_intent::{StoredTokenIntent, TokenIntentRecord},
    token_type::TokenType,
};
use scrip_seal::Fingerprint;
use tokio_postgres::Row;

use crate::postgres::{
    answers::insert_beside,
    row::{column, containers, cvc, optional_array, sealed, time},
    statement::{Parameters, PostgresClient, query},
    transaction::Transaction,
};

const INSERT_TOKEN_INTENT: &str = "
-- insert_token_intent
WITH made AS (
    INSERT INTO token_intents
        (tenant, id, type, fingerprint, created_by, created_at, expires_at, body, containers)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $11)
    RETURNING id
)
    INSERT INTO intent_cvcs (tenant, intent, expires_at, sealed)
    SELECT $1, id, $9::bigint, $10::bytea FROM made WHERE $9::bigint IS NOT NULL";

pub(super) async fn insert_token_intent(
    transaction: &mut Transaction,
    intent: &StoredTokenIntent,
    written: &Beside,
) -> Result<(), StoreError> {
    let StoredTokenIntent { record, cvc } = intent;
    let code = cvc.as_ref();
    transaction
        .execute_raw(
            INSERT_TOKEN_INTENT,
            &[
                &transaction.tenant.0,
                &record.id.0,
                &record.token_type.as_str(),
                &record.fingerprint.as_ref().map(|it| it.0.as_slice()),
                &record.created_by.0,
                &record.created_at.unix_ms,
                &record.expires_at.unix_ms,
                &record.body.as_bytes(),
                &code.map(|it| it.expires_at.unix_ms),
                &code.map(|it| it.sealed.as_bytes()),
                &record.containers.text(),
            ],
        )
        .await?;
    insert_beside(transaction, written, "created").await
}

const FIND_TOKEN_INTENT: &str = "
-- find_token_intent
SELECT it.type, it.fingerprint, it.created_by, it.created_at, it.expires_at, it.body,
    intent_cvcs.expires_at, intent_cvcs.sealed, it.containers
FROM token_intents AS it
LEFT JOIN intent_cvcs ON intent_cvcs.tenant = it.tenant AND intent_cvcs.intent = it.id
WHERE it.tenant = $1 AND it.id = $2 AND it.expires_at > $3";

pub(super) async fn find_token_intent(
    client: &impl PostgresClient,
    tenant: TenantId,
    id: TokenIntentId,
    now: Timestamp,
) -> Result<Option<StoredTokenIntent>, StoreError> {
    let rows = query(client, FIND_TOKEN_INTENT, &[&tenant.0, &id.0, &now.unix_ms]).await?;
    rows.first().map(|row| stored(row, id)).transpose()
}

fn stored(row: &Row, id: TokenIntentId) -> Result<StoredTokenIntent, StoreError> {
    let unknown = StoreError::Corrupt("an intent's row is not one of ours");
    let record = TokenIntentRecord {
        id,
        token_type: TokenType::parse(column(row, 0)?).ok_or(unknown)?,
        fingerprint: optional_array(row, 1)?.map(Fingerprint),
        containers: containers(row, 8)?,
        created_by: ApplicationId(column(row, 2)?),
        created_at: time(row, 3)?,
        expires_at: time(row, 4)?,
        body: sealed(row, 5)?,
    };
    Ok(StoredTokenIntent { record, cvc: cvc(row, 6)? })
}

const DELETE_TOKEN_INTENT: &str = "
-- delete_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2 AND expires_at > $3";

/// Deletes it, or makes a token of it in the same transaction: whoever comes second finds it gone.
pub(super) async fn end(
    transaction: &mut Transaction,
    id: TokenIntentId,
    (audit, word): (&AuditRecord, &'static str),
) -> Result<Changed, StoreError> {
    let parameters: Parameters<'_, 3> = [&transaction.tenant.0, &id.0, &audit.at.unix_ms];
    if transaction.execute_raw(DELETE_TOKEN_INTENT, &parameters).await? == 0 {
        return Ok(Changed::Stale);
    }
    transaction.append_record(audit, &id.to_string(), word);
    Ok(Changed::Done)
}
