//! Active tokens, recorded in the transaction of the read-log record.

use scrip_core::types::{StoreError, time::Month};

use crate::postgres::engine::transaction::PostgresTransaction;

/// One row per token and month.
const INSERT_ACTIVE_TOKENS: &str = "
-- insert_active_tokens
WITH inserted_active AS (
    INSERT INTO active_tokens (tenant, month, token)
    SELECT DISTINCT $1::uuid, * FROM unnest($2::bigint[], $3::text[])
    ON CONFLICT (tenant, month, token) DO NOTHING
    RETURNING month
)
    INSERT INTO active_months (tenant, month, active)
    SELECT $1, month, count(*) FROM inserted_active GROUP BY month
ON CONFLICT (tenant, month) DO UPDATE SET active = active_months.active + excluded.active";

/// Records active tokens. Only the writer of the read log calls this function.
pub(crate) async fn record_active_tokens(
    transaction: &PostgresTransaction,
    tokens: &[(Month, &str)],
) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (months, tokens): (Vec<_>, Vec<_>) =
        tokens.iter().map(|(month, token)| (month.0, *token)).unzip();
    let tenant = transaction.tenant.0;
    transaction.execute_raw(INSERT_ACTIVE_TOKENS, &[&tenant, &months, &tokens]).await.map(drop)
}
