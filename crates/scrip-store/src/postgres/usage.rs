//! What a tenant uses. What tokens there are is counted as they come and go (`tally.rs`); what is
//! active is noted in the transaction of the record of the read.

use scrip_core::{
    id::TenantId,
    store::StoreError,
    time::Month,
    token_type::TokenType,
    usage::{TypeUsage, Usage},
};

use crate::postgres::{
    row::{column, time},
    statement::{Single, PostgresClient, count, execute, query},
    transaction::Transaction,
};

/// One row for each type, and one for the month.
const FIND_USAGE: &str = "
-- find_usage
SELECT type, count, last_created_at FROM usage_types WHERE tenant = $1
UNION ALL SELECT NULL,
    coalesce((SELECT created FROM usage_months WHERE tenant = $1 AND month = $2), 0),
    coalesce((SELECT active FROM active_months WHERE tenant = $1 AND month = $2), 0)
ORDER BY 1";

pub(super) async fn find_usage(
    client: &impl PostgresClient,
    tenant: TenantId,
    month: Month,
) -> Result<Usage, StoreError> {
    let mut usage = Usage { types: Vec::new(), created: 0, active: 0 };
    for row in &query(client, FIND_USAGE, &[&tenant.0, &month.0]).await? {
        let number = |at| column::<i64>(row, at).map(|it| u64::try_from(it).unwrap_or(0));
        match column::<Option<&str>>(row, 0)? {
            None => (usage.created, usage.active) = (number(1)?, number(2)?),
            Some(name) => {
                let unknown = StoreError::Corrupt("a count is of no type of token");
                let token_type = TokenType::parse(name).ok_or(unknown)?;
                let (count, last_created_at) = (number(1)?, time(row, 2)?);
                usage.types.push(TypeUsage { token_type, count, last_created_at });
            }
        }
    }
    Ok(usage)
}

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
pub(super) async fn note_active(
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

pub(super) async fn sweep_usage(client: &Single<'_>, month: Month) -> Result<usize, StoreError> {
    let [created, months, tokens] = SWEEP;
    let year_ago = month.a_year_before();
    let mut swept = 0_u64;
    for (sql, before) in [(created, year_ago), (months, year_ago), (tokens, month)] {
        swept = swept.saturating_add(execute(client, sql, &[&before.0, &SWEPT_AT_ONCE]).await?);
    }
    Ok(count(swept))
}
