//! What a tenant uses. What tokens there are is counted as they come and go (`tally.rs`); what is
//! active is noted in the access log, in the transaction of the record of the read.

use rusqlite::{Connection, OptionalExtension, Row};
use scrip_core::{
    id::TenantId,
    store::StoreError,
    time::{Month, Timestamp},
    token_type::TokenType,
    usage::{TypeUsage, Usage},
};

use crate::sqlite::{fault, tokens::execute, transaction::Transaction};

const FIND_TYPES: &str = "
-- find_usage_types
SELECT type, count, last_created_at FROM usage_types WHERE tenant = ?1 ORDER BY type";

const FIND_CREATED: &str = "
-- find_created
SELECT created FROM usage_months WHERE month = ?2 AND tenant = ?1";

pub(super) fn find_usage(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
) -> Result<Usage, StoreError> {
    let _snapshot = connection.unchecked_transaction().map_err(fault)?;
    let mut statement = connection.prepare_cached(FIND_TYPES).map_err(fault)?;
    let of_type = |row: &Row<'_>| {
        let count: i64 = row.get(1)?;
        let last_created_at = Timestamp { unix_ms: row.get(2)? };
        Ok((row.get::<_, String>(0)?, u64::try_from(count).unwrap_or(0), last_created_at))
    };
    let rows = statement.query_map([tenant.0.as_bytes()], of_type).map_err(fault)?;
    let mut types = Vec::new();
    for row in rows {
        let (name, count, last_created_at) = row.map_err(fault)?;
        let unknown = StoreError::Corrupt("a count is of no type of token");
        let token_type = TokenType::parse(&name).ok_or(unknown)?;
        types.push(TypeUsage { token_type, count, last_created_at });
    }
    let created = of_month(connection, FIND_CREATED, tenant, month)?;
    Ok(Usage { types, created, active: 0 })
}

const FIND_ACTIVE: &str = "
-- find_active
SELECT active FROM active_months WHERE month = ?2 AND tenant = ?1";

/// In the access log.
pub(super) fn find_active(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
) -> Result<u64, StoreError> {
    of_month(connection, FIND_ACTIVE, tenant, month)
}

fn of_month(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    month: Month,
) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let found = statement.query_row((tenant.0.as_bytes(), month.0), |row| row.get(0)).optional();
    let found: Option<i64> = found.map_err(fault)?;
    Ok(found.and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
}

const NOTE_ACTIVE: &str = "
-- note_active
INSERT OR IGNORE INTO active_tokens (month, tenant, token) VALUES (?1, ?2, ?3)";

const COUNT_ACTIVE: &str = "
-- count_active
INSERT INTO active_months (month, tenant, active) VALUES (?1, ?2, 1)
ON CONFLICT (month, tenant) DO UPDATE SET active = active + 1";

/// In the access log: once for each token and month.
pub(super) fn note_active(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
    token: &str,
) -> Result<(), StoreError> {
    let tenant = tenant.0.as_bytes();
    if execute(connection, NOTE_ACTIVE, (month.0, tenant, token))? > 0 {
        execute(connection, COUNT_ACTIVE, (month.0, tenant))?;
    }
    Ok(())
}

const SWEPT_AT_ONCE: i64 = 128;

const SWEEP_CREATED: &str = "
-- sweep_created
DELETE FROM usage_months WHERE (month, tenant) IN (
    SELECT month, tenant FROM usage_months WHERE month < ?1 LIMIT ?2)";

pub(super) fn sweep_created(connection: &Connection, month: Month) -> Result<usize, StoreError> {
    execute(connection, SWEEP_CREATED, (month.a_year_before().0, SWEPT_AT_ONCE))
}

const SWEEP_ACTIVE: &str = "
-- sweep_active
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month < ?1 LIMIT ?2)";

const SWEEP_MONTHS: &str = "
-- sweep_months
DELETE FROM active_months WHERE (month, tenant) IN (
    SELECT month, tenant FROM active_months WHERE month < ?1 LIMIT ?2)";

pub(super) fn sweep_active(connection: &Connection, month: Month) -> Result<usize, StoreError> {
    let tokens = execute(connection, SWEEP_ACTIVE, (month.0, SWEPT_AT_ONCE))?;
    let months = execute(connection, SWEEP_MONTHS, (month.a_year_before().0, SWEPT_AT_ONCE))?;
    Ok(tokens.saturating_add(months))
}

const FORGET_TYPES: &str = "
-- forget_usage_types
DELETE FROM usage_types WHERE tenant = ?1";

const FORGET_CREATED: &str = "
-- forget_usage_months
DELETE FROM usage_months WHERE tenant = ?1";

/// Of a tenant that is deleted: a row for each type, and some for the year.
pub(super) fn forget_usage(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
) -> Result<(), StoreError> {
    execute(transaction, FORGET_TYPES, [tenant.0.as_bytes()])?;
    execute(transaction, FORGET_CREATED, [tenant.0.as_bytes()])?;
    transaction.tally.forgotten(tenant);
    Ok(())
}

const LIST_MONTHS: &str = "
-- list_active_months
SELECT month FROM active_months WHERE tenant = ?1";

const FORGET_ACTIVE: &str = "
-- forget_active_tokens
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month = ?1 AND tenant = ?2 LIMIT ?3)";

const FORGET_MONTH: &str = "
-- forget_active_month
DELETE FROM active_months WHERE month = ?1 AND tenant = ?2";

/// The same in the access log, where there may be much of it; how many rows of it went.
pub(super) fn forget_active(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<usize, StoreError> {
    let mut forgotten = 0_usize;
    for tenant in tenants {
        let tenant = tenant.0.as_bytes();
        let mut statement = connection.prepare_cached(LIST_MONTHS).map_err(fault)?;
        let months = statement.query_map([tenant], |row| row.get(0));
        let months: Vec<i64> = months.and_then(Iterator::collect).map_err(fault)?;
        for month in months {
            let gone = execute(connection, FORGET_ACTIVE, (month, tenant, SWEPT_AT_ONCE))?;
            // The month goes when there is nothing left of it.
            let last =
                if gone == 0 { execute(connection, FORGET_MONTH, (month, tenant))? } else { 0 };
            forgotten = forgotten.saturating_add(gone).saturating_add(last);
        }
    }
    Ok(forgotten)
}
