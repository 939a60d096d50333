//! Active tokens, recorded in the read log in the transaction of the read-log record.

use rusqlite::Connection;
use scrip_core::types::{StoreError, id::TenantId, time::Month};

use crate::{
    sql::{Statements, parameters, read_required, run_sync_future},
    sqlite::engine::statement::execute,
};

const INSERT_ACTIVE_TOKEN: &str = "
-- insert_active_tokens
INSERT OR IGNORE INTO active_tokens (month, tenant, token) VALUES ($1, $2, $3)";

const INCREMENT_ACTIVE_MONTH: &str = "
-- increment_active_month
INSERT INTO active_months (month, tenant, active) VALUES ($1, $2, 1)
ON CONFLICT (month, tenant) DO UPDATE SET active = active + 1";

/// Records an active token in the read-log database: one row per token and month.
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

/// Maximum number of rows of one tenant and month per transaction.
const DELETE_BATCH_SIZE: i64 = 128;

const LIST_MONTHS: &str = "
-- list_active_months
SELECT month FROM active_months WHERE tenant = $1";

const DELETE_ACTIVE_TOKENS: &str = "
-- delete_active_tokens
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month = $1 AND tenant = $2 LIMIT $3)";

const DELETE_ACTIVE_MONTH: &str = "
-- delete_active_month
DELETE FROM active_months WHERE month = $1 AND tenant = $2";

/// The table is small: its rows are moved to the vault within seconds.
const DELETE_READ_DELIVERIES: &str = "
-- delete_read_deliveries
DELETE FROM read_deliveries WHERE seq IN (
    SELECT seq FROM read_deliveries WHERE tenant = $1 LIMIT $2)";

/// Deletes the activity and the deliveries of deleted tenants from the read log, in batches. Returns
/// the number of deleted rows.
pub(crate) fn delete_activity(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<usize, StoreError> {
    let mut deleted_total = 0_usize;
    for tenant in tenants {
        let key = parameters![*tenant];
        let months = connection.query(LIST_MONTHS, &key, |row| read_required(row, 0));
        let months: Vec<i64> = run_sync_future(months)?;
        for month in months {
            let key = parameters![month, *tenant, DELETE_BATCH_SIZE];
            let mut deleted_rows = execute(connection, DELETE_ACTIVE_TOKENS, &key)?;
            // The month is deleted after all its rows.
            if deleted_rows == 0 {
                deleted_rows =
                    execute(connection, DELETE_ACTIVE_MONTH, &parameters![month, *tenant])?;
            }
            deleted_total = deleted_total.saturating_add(deleted_rows);
        }
        let key = parameters![*tenant, DELETE_BATCH_SIZE];
        let deleted_rows = execute(connection, DELETE_READ_DELIVERIES, &key)?;
        deleted_total = deleted_total.saturating_add(deleted_rows);
    }
    Ok(deleted_total)
}
