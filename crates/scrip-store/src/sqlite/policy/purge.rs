//! Deletes the leftover rows of deleted tenants.

use std::sync::LazyLock;

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    types::{StoreError, id::TenantId},
};

use crate::{
    shared::policy::changes::LATE_WRITES_MS,
    sql::{Statements, parameters, read_required, run_sync_future},
    sqlite::{
        SqliteStore,
        engine::{statement::execute, transaction::SqliteTransaction},
    },
    tables::{TABLES, Table, TenantRows},
};

/// Maximum number of rows per statement.
const PURGE_BATCH_SIZE: i64 = 256;

/// Statements that delete a batch of rows of a tenant.
pub(crate) static PURGE_STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let purge = |Table { name, tenant_rows, .. }: &Table| {
        let TenantRows::Purged { sqlite_key: Some(key), .. } = tenant_rows else { return None };
        Some(format!(
            "-- purge_{name}
DELETE FROM {name} WHERE ({key}) IN (
    SELECT {key} FROM {name} WHERE tenant = $1 LIMIT $2)"
        ))
    };
    TABLES.iter().filter_map(purge).collect()
});

const FIND_TENANT: &str = "-- find_tenant\nSELECT 1 FROM tenants WHERE id = $1";

/// Returns the given tenants that have no row.
fn list_tenants_without_row(
    connection: &Connection,
    tenants: &[TenantId],
) -> Result<Vec<TenantId>, StoreError> {
    let mut deleted_tenants = Vec::new();
    for tenant in tenants {
        let key = parameters![*tenant];
        let tenant_row = connection.find(FIND_TENANT, &key, |_| Ok(()));
        if run_sync_future(tenant_row)?.is_none() {
            deleted_tenants.push(*tenant);
        }
    }
    Ok(deleted_tenants)
}

const DELETE_PURGED_TENANT: &str = "
-- delete_purged_tenant
DELETE FROM deleted_tenants WHERE id = $1 AND deleted_at <= $2";

impl SqliteStore {
    /// Deletes a batch of rows and returns their number. The activity in the read log is deleted
    /// first.
    pub(crate) async fn purge(
        &self,
        tenants: Vec<TenantId>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let tenants = self.readers.read(|it| list_tenants_without_row(it, &tenants))?;
        let deleted_tenants = tenants.clone();
        let delete = move |it: &mut SqliteTransaction<'_>| delete_activity(it, &deleted_tenants);
        match self.read_log.writer.write(delete).await? {
            0 => self.writer.write(move |it| purge_tenants(it, &tenants, now)).await,
            deleted_rows => Ok(deleted_rows),
        }
    }
}

fn purge_tenants(
    connection: &Connection,
    tenants: &[TenantId],
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut purged_rows = 0_usize;
    for tenant in tenants {
        for sql in &*PURGE_STATEMENTS {
            let deleted_rows = execute(connection, sql, &parameters![*tenant, PURGE_BATCH_SIZE])?;
            purged_rows = purged_rows.saturating_add(deleted_rows);
        }
        if purged_rows > 0 {
            return Ok(purged_rows);
        }
        let cutoff = now.unix_ms.saturating_sub(LATE_WRITES_MS);
        execute(connection, DELETE_PURGED_TENANT, &parameters![*tenant, cutoff])?;
    }
    Ok(purged_rows)
}

/// Maximum number of rows of one tenant and month per transaction.
const ACTIVITY_BATCH_SIZE: i64 = 128;

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
fn delete_activity(connection: &Connection, tenants: &[TenantId]) -> Result<usize, StoreError> {
    let mut deleted_total = 0_usize;
    for tenant in tenants {
        let key = parameters![*tenant];
        let months = connection.query(LIST_MONTHS, &key, |row| read_required(row, 0));
        let months: Vec<i64> = run_sync_future(months)?;
        for month in months {
            let key = parameters![month, *tenant, ACTIVITY_BATCH_SIZE];
            let mut deleted_rows = execute(connection, DELETE_ACTIVE_TOKENS, &key)?;
            // The month is deleted after all its rows.
            if deleted_rows == 0 {
                deleted_rows =
                    execute(connection, DELETE_ACTIVE_MONTH, &parameters![month, *tenant])?;
            }
            deleted_total = deleted_total.saturating_add(deleted_rows);
        }
        let key = parameters![*tenant, ACTIVITY_BATCH_SIZE];
        let deleted_rows = execute(connection, DELETE_READ_DELIVERIES, &key)?;
        deleted_total = deleted_total.saturating_add(deleted_rows);
    }
    Ok(deleted_total)
}
