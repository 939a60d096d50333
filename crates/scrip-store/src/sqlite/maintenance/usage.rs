//! What a tenant uses. What tokens there are is counted as they come and go (`engine/tally.rs`); what
//! is active is noted in the access log, in the transaction of the record of the read.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, time::Month, token::Usage};

use crate::{
    rules::usage::{count, type_usage},
    sql::{Statements, parameters, required, run_ready},
    sqlite::{
        SqliteStore,
        engine::statement::{at_one_instant, execute},
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

fn of_month(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    month: Month,
) -> Result<u64, StoreError> {
    let of = parameters![tenant, month];
    let found = connection.find(sql, &of, |row| count(row, 0));
    Ok(run_ready(found)?.unwrap_or(0))
}

const NOTE_ACTIVE: &str = "
-- note_active
INSERT OR IGNORE INTO active_tokens (month, tenant, token) VALUES ($1, $2, $3)";

const COUNT_ACTIVE: &str = "
-- count_active
INSERT INTO active_months (month, tenant, active) VALUES ($1, $2, 1)
ON CONFLICT (month, tenant) DO UPDATE SET active = active + 1";

/// In the access log: once for each token and month.
pub(crate) fn note_active(
    connection: &Connection,
    tenant: TenantId,
    month: Month,
    token: &str,
) -> Result<(), StoreError> {
    if execute(connection, NOTE_ACTIVE, &parameters![month, tenant, token])? > 0 {
        execute(connection, COUNT_ACTIVE, &parameters![month, tenant])?;
    }
    Ok(())
}

const SWEPT_AT_ONCE: i64 = 128;

const LIST_MONTHS: &str = "
-- list_active_months
SELECT month FROM active_months WHERE tenant = $1";

const FORGET_ACTIVE: &str = "
-- forget_active_tokens
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month = $1 AND tenant = $2 LIMIT $3)";

const FORGET_MONTH: &str = "
-- forget_active_month
DELETE FROM active_months WHERE month = $1 AND tenant = $2";

/// What deleted tenants left in the access log, where there may be much of it; how many rows of it
/// went.
pub(crate) fn forget_active(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<usize, StoreError> {
    let mut forgotten = 0_usize;
    for tenant in tenants {
        let of = parameters![*tenant];
        let months = connection.query(LIST_MONTHS, &of, |row| required(row, 0));
        let months: Vec<i64> = run_ready(months)?;
        for month in months {
            let some = parameters![month, *tenant, SWEPT_AT_ONCE];
            let mut gone = execute(connection, FORGET_ACTIVE, &some)?;
            // The month goes when there is nothing left of it.
            if gone == 0 {
                gone = execute(connection, FORGET_MONTH, &parameters![month, *tenant])?;
            }
            forgotten = forgotten.saturating_add(gone);
        }
    }
    Ok(forgotten)
}

impl SqliteStore {
    pub(crate) async fn usage(&self, tenant: TenantId, month: Month) -> Result<Usage, StoreError> {
        let find = |it: &Connection| {
            at_one_instant(it, || {
                let types = run_ready(it.query(FIND_TYPES, &parameters![tenant], type_usage))?;
                Ok((types, of_month(it, FIND_CREATED, tenant, month)?))
            })
        };
        let (types, created) = self.readers.read(find)?;
        let active = self.access.readers.read(|it| of_month(it, FIND_ACTIVE, tenant, month))?;
        Ok(Usage { types, created, active })
    }
}
