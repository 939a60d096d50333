//! Deletes the leftover rows of deleted tenants.

use std::sync::LazyLock;

use scrip_core::{
    Timestamp,
    types::{StoreError, id::TenantId},
};
use uuid::Uuid;

use crate::{
    postgres::{
        PostgresStore,
        engine::statement::{PostgresClient, read_column},
    },
    shared::policy::changes::LATE_WRITES_MS,
    tables::{TABLES, Table, TenantRows},
};

/// Maximum number of rows per statement.
const PURGE_BATCH_SIZE: i64 = 256;

/// The purged tables, each with the columns that identify a row.
fn purged_tables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let purged = |Table { name, tenant_rows, .. }: &'static Table| {
        let TenantRows::Purged { postgres_key, .. } = tenant_rows else { return None };
        Some((*name, *postgres_key))
    };
    TABLES.iter().filter_map(purged)
}

/// Statements that delete a batch of rows of deleted tenants.
pub(crate) static PURGE_STATEMENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let purge = |(name, key)| {
        format!(
            "-- purge_{name}
DELETE FROM {name} WHERE ({key}) IN (
    SELECT {key} FROM {name} WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED)"
        )
    };
    purged_tables().map(purge).collect()
});

/// Deletes the entries of tenants without remaining rows. The purge skips rows that another node
/// has locked, and those rows stay if that node fails.
pub(crate) static DELETE_PURGED_TENANTS: LazyLock<String> = LazyLock::new(|| {
    let without_rows =
        |(name, _)| format!("\n    AND NOT EXISTS (SELECT 1 FROM {name} WHERE tenant = it.id)");
    let conditions: String = purged_tables().map(without_rows).collect();
    format!(
        "-- delete_purged_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2){conditions}"
    )
});

/// Returns the given tenants that have no row.
const FIND_TENANTS_WITHOUT_ROW: &str = "
-- find_tenants_without_row
SELECT it FROM unnest($1::uuid[]) AS it WHERE it NOT IN (SELECT id FROM tenants)";

impl PostgresStore {
    /// Deletes one batch per table and returns the number of deleted rows. Each statement is a
    /// separate transaction, because the deletions are independent.
    pub(crate) async fn purge(
        &self,
        tenants: Vec<TenantId>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        if tenants.is_empty() {
            return Ok(0);
        }
        let client = self.for_all_tenants();
        let tenants: Vec<_> = tenants.into_iter().map(|it| it.0).collect();
        let rows = client.rows(FIND_TENANTS_WITHOUT_ROW, &[&tenants]).await?;
        let deleted_tenants =
            rows.iter().map(|row| read_column(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
        let mut purged_rows = 0_usize;
        for sql in &*PURGE_STATEMENTS {
            let deleted_rows =
                client.execute_raw(sql, &[&deleted_tenants, &PURGE_BATCH_SIZE]).await?;
            purged_rows = purged_rows.saturating_add(deleted_rows);
        }
        if purged_rows == 0 {
            let cutoff = now.unix_ms.saturating_sub(LATE_WRITES_MS);
            client.execute_raw(&DELETE_PURGED_TENANTS, &[&cutoff, &deleted_tenants]).await?;
        }
        Ok(purged_rows)
    }
}
