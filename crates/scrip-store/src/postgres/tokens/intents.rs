//! Token intents.

use scrip_core::{change::CommitExtras, token::StoredTokenIntent, types::StoreError};

use crate::{
    postgres::engine::{statement::driver_parameters, transaction::PostgresTransaction},
    shared::{
        idempotency::insert_commit_extras, key_versions::check_sealed,
        tokens::intents::insert_intent_parameters,
    },
    sql::parameters,
};

const INSERT_TOKEN_INTENT: &str = "
-- insert_token_intent
WITH inserted AS (
    INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by, created_at,
        expires_at, body)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    RETURNING id
)
INSERT INTO intent_cvcs (tenant, intent, expires_at, sealed)
SELECT $1, id, $10::bigint, $11::bytea FROM inserted WHERE $10::bigint IS NOT NULL";

pub(crate) async fn insert_token_intent(
    transaction: &mut PostgresTransaction,
    intent: &StoredTokenIntent,
    extras: &CommitExtras,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    check_sealed(transaction, tenant, &[&intent.record.body]).await?;
    let row = insert_intent_parameters(tenant, &intent.record);
    let cvc = intent.cvc.as_ref();
    let cvc_columns = parameters![cvc.map(|it| it.expires_at), cvc.map(|it| &it.sealed)];
    let mut columns = driver_parameters(&row);
    columns.extend(driver_parameters(&cvc_columns));
    transaction.execute_raw(INSERT_TOKEN_INTENT, &columns).await?;
    insert_commit_extras(transaction, tenant, extras, "created").await
}
