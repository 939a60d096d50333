//! What a tenant uses. What tokens there are is counted as they come and go (`tally.rs`); what is
//! active is noted in the transaction of the record of the read.

use scrip_core::{
    policy::Mandate,
    store::{StoreError, StoreFuture, UsageStore},
    time::Month,
    token::Usage,
};

use crate::{
    postgres::{PostgresStore, engine::transaction::Transaction},
    rules::usage::{count, type_usage},
    sql::{ColumnReader, Execute, Statements, optional, parameters},
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
const NOTE_ACTIVE: &str = "
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
pub(crate) async fn note_active(
    transaction: &Transaction,
    tokens: &[(Month, &str)],
) -> Result<(), StoreError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (months, tokens): (Vec<_>, Vec<_>) =
        tokens.iter().map(|(it, token)| (it.0, *token)).unzip();
    let tenant = transaction.tenant.0;
    transaction.execute_raw(NOTE_ACTIVE, &[&tenant, &months, &tokens]).await.map(drop)
}

const SWEPT_AT_ONCE: i64 = 128;

const SWEEP: [&str; 3] = [
    "
-- sweep_created
DELETE FROM usage_months WHERE (tenant, month) IN (
    SELECT tenant, month FROM usage_months WHERE month < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
    "
-- sweep_months
DELETE FROM active_months WHERE (tenant, month) IN (
    SELECT tenant, month FROM active_months WHERE month < $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
    "
-- sweep_active
DELETE FROM active_tokens WHERE (tenant, month, token) IN (
    SELECT tenant, month, token FROM active_tokens WHERE month < $1 LIMIT $2
    FOR UPDATE SKIP LOCKED)",
];

impl UsageStore for PostgresStore {
    fn find_usage<'a>(&'a self, mandate: &'a Mandate, month: Month) -> StoreFuture<'a, Usage> {
        let tenant = mandate.tenant().id;
        let row = |row: &dyn ColumnReader| match optional::<&str>(row, 0)? {
            None => Ok(Err((count(row, 1)?, count(row, 2)?))),
            Some(_) => type_usage(row).map(Ok),
        };
        Box::pin(async move {
            let of = parameters![tenant, month];
            let mut usage = Usage { types: Vec::new(), created: 0, active: 0 };
            for row in self.of(tenant).query(FIND_USAGE, &of, row).await? {
                match row {
                    Ok(of_type) => usage.types.push(of_type),
                    Err((created, active)) => usage = Usage { created, active, ..usage },
                }
            }
            Ok(usage)
        })
    }

    fn sweep_usage(&self, month: Month) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let [created, months, tokens] = SWEEP;
            let year_ago = month.a_year_before();
            let mut swept = 0_usize;
            for (sql, before) in [(created, year_ago), (months, year_ago), (tokens, month)] {
                let some = parameters![before, SWEPT_AT_ONCE];
                swept = swept.saturating_add(self.of_every_tenant().execute(sql, &some).await?);
            }
            Ok(swept)
        })
    }
}
