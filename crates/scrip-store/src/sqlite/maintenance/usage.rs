//! What a tenant uses. What tokens there are is counted as they come and go (`engine/tally.rs`); what
//! is active is noted in the access log, in the transaction of the record of the read.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, time::Month, token::TenantUsage};

use crate::{
    shared::usage::{decode_count, decode_type_usage},
    sql::{Statements, parameters, required, run_ready},
    sqlite::{
        SqliteStore,
        engine::statement::{execute, with_snapshot},
    },
};

const FIND_TYPES: &str = "
-- find_usage_types
SELECT type, count, last_created_at FROM usage_types WHERE tenant = $1 ORDER BY type";

const FIND_CREATED: &str = "
-- find_created
SELECT created FROM usage_months WHERE tenant = $1 AND month = $2";

/// In the access log.
const FIND_ACTIVE: &str = "
-- find_active
SELECT active FROM active_months WHERE tenant = $1 AND month = $2";

fn find_month_count(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    month: Month,
) -> Result<u64, StoreError> {
    let key = parameters![tenant, month];
    let found = connection.find(sql, &key, |row| decode_count(row, 0));
    Ok(run_ready(found)?.unwrap_or(0))
}

const INSERT_ACTIVE_TOKEN: &str = "
-- note_active
INSERT OR IGNORE INTO active_tokens (month, tenant, token) VALUES ($1, $2, $3)";

const INCREMENT_ACTIVE_MONTH: &str = "
-- count_active
INSERT INTO active_months (month, tenant, active) VALUES ($1, $2, 1)
ON CONFLICT (month, tenant) DO UPDATE SET active = active + 1";

/// In the access log: once for each token and month.
pub(crate) fn record_active_token(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
    token: &str,
) -> Result<(), StoreError> {
    if execute(connection, INSERT_ACTIVE_TOKEN, &parameters![month, tenant, token])? > 0 {
        execute(connection, INCREMENT_ACTIVE_MONTH, &parameters![month, tenant])?;
    }
    Ok(())
}

const DELETE_BATCH: i64 = 128;

const LIST_MONTHS: &str = "
-- list_active_months
SELECT month FROM active_months WHERE tenant = $1";

const DELETE_ACTIVE_TOKENS: &str = "
-- forget_active_tokens
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month = $1 AND tenant = $2 LIMIT $3)";

const DELETE_ACTIVE_MONTH: &str = "
-- forget_active_month
DELETE FROM active_months WHERE month = $1 AND tenant = $2";

/// What deleted tenants left in the access log, where there may be much of it; how many rows of it
/// went.
pub(crate) fn delete_activity(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<usize, StoreError> {
    let mut forgotten = 0_usize;
    for tenant in tenants {
        let key = parameters![*tenant];
        let months = connection.query(LIST_MONTHS, &key, |row| required(row, 0));
        let months: Vec<i64> = run_ready(months)?;
        for month in months {
            let some = parameters![month, *tenant, DELETE_BATCH];
            let mut gone = execute(connection, DELETE_ACTIVE_TOKENS, &some)?;
            // The month goes when there is nothing left of it.
            if gone == 0 {
                gone = execute(connection, DELETE_ACTIVE_MONTH, &parameters![month, *tenant])?;
            }
            forgotten = forgotten.saturating_add(gone);
        }
    }
    Ok(forgotten)
}

impl SqliteStore {
    pub(crate) async fn usage(
        &self,
        tenant: TenantId,
        month: Month,
    ) -> Result<TenantUsage, StoreError> {
        let find = |it: &Connection| {
            with_snapshot(it, || {
                let types =
                    run_ready(it.query(FIND_TYPES, &parameters![tenant], decode_type_usage))?;
                Ok((types, find_month_count(it, FIND_CREATED, tenant, month)?))
            })
        };
        let (types, created) = self.readers.read(find)?;
        let active =
            self.read_log.readers.read(|it| find_month_count(it, FIND_ACTIVE, tenant, month))?;
        Ok(TenantUsage { types, created, active })
    }
}
