//! What a tenant uses. What tokens there are is counted as they come and go (`tally.rs`); what is
//! active is noted in the transaction of the record of the read.

use scrip_core::{id::TenantId, store::StoreError, time::Month, token::TenantUsage};

use crate::{
    postgres::{PostgresStore, engine::transaction::PostgresTransaction},
    shared::usage::{decode_count, decode_type_usage},
    sql::{ColumnReader, Statements, optional, parameters},
};

/// One row for each type, and one for the month.
const FIND_USAGE: &str = "
-- find_usage
SELECT type, count, last_created_at FROM usage_types WHERE tenant = $1
UNION ALL SELECT NULL,
    coalesce((SELECT created FROM usage_months WHERE tenant = $1 AND month = $2), 0),
    coalesce((SELECT active FROM active_months WHERE tenant = $1 AND month = $2), 0)
ORDER BY 1";

/// Once for each token and month.
const INSERT_ACTIVE_TOKENS: &str = "
-- note_active
WITH used AS (
    INSERT INTO active_tokens (tenant, month, token)
    SELECT DISTINCT $1::uuid, * FROM unnest($2::bigint[], $3::text[])
    ON CONFLICT (tenant, month, token) DO NOTHING
    RETURNING month
)
    INSERT INTO active_months (tenant, month, active)
    SELECT $1, month, count(*) FROM used GROUP BY month
ON CONFLICT (tenant, month) DO UPDATE SET active = active_months.active + excluded.active";

/// Only ever by whoever writes to the access log.
pub(crate) async fn record_active_tokens(
    transaction: &PostgresTransaction,
    tokens: &[(Month, &str)],
) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (months, tokens): (Vec<_>, Vec<_>) =
        tokens.iter().map(|(it, token)| (it.0, *token)).unzip();
    let tenant = transaction.tenant.0;
    transaction.execute_raw(INSERT_ACTIVE_TOKENS, &[&tenant, &months, &tokens]).await.map(drop)
}

impl PostgresStore {
    pub(crate) async fn usage(
        &self,
        tenant: TenantId,
        month: Month,
    ) -> Result<TenantUsage, StoreError> {
        let row = |row: &dyn ColumnReader| match optional::<&str>(row, 0)? {
            None => Ok(Err((decode_count(row, 1)?, decode_count(row, 2)?))),
            Some(_) => decode_type_usage(row).map(Ok),
        };
        let key = parameters![tenant, month];
        let mut usage = TenantUsage { types: Vec::new(), created: 0, active: 0 };
        for row in self.for_tenant(tenant).query(FIND_USAGE, &key, row).await? {
            match row {
                Ok(of_type) => usage.types.push(of_type),
                Err((created, active)) => usage = TenantUsage { created, active, ..usage },
            }
        }
        Ok(usage)
    }
}
