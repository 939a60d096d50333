//! Deletes the leftover rows of deleted tenants.

use scrip_core::{
    Timestamp,
    types::{StoreError, id::TenantId},
};
use uuid::Uuid;

use crate::{
    postgres::{
        PostgresStore,
        engine::{row::read_column, statement::PostgresClient},
    },
    shared::policy::changes::LATE_WRITES_MS,
    sql::delete_batch,
};

/// Maximum number of rows per statement.
const PURGE_BATCH_SIZE: i64 = 256;

/// Statement that deletes a batch of rows of deleted tenants.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        delete_batch!(postgres, concat!("purge_", $table), $table, "tenant = ANY ($1)", $key)
    };
}

const PURGE_STATEMENTS: [&str; 8] = [
    purge!("active_tokens", "tenant, month, token"),
    purge!("active_months", "tenant, month"),
    purge!("tokens", "tenant, number"),
    purge!("token_index", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "tenant, id"),
    purge!("threeds_sessions", "tenant, id"),
    purge!("deliveries", "tenant, webhook, event"),
    purge!("guesses", "tenant, bucket, number_digest"),
];

/// Deletes the entries of tenants without remaining rows. The purge skips rows that another node
/// has locked, and those rows stay if that node fails.
const DELETE_PURGED_TENANTS: &str = "
-- delete_purged_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM active_tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM active_months WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_index WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_intents WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM threeds_sessions WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM guesses WHERE tenant = it.id)";

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
        for sql in PURGE_STATEMENTS {
            let deleted_rows =
                client.execute_raw(sql, &[&deleted_tenants, &PURGE_BATCH_SIZE]).await?;
            purged_rows = purged_rows.saturating_add(deleted_rows);
        }
        if purged_rows == 0 {
            let cutoff = now.unix_ms.saturating_sub(LATE_WRITES_MS);
            client.execute_raw(DELETE_PURGED_TENANTS, &[&cutoff, &deleted_tenants]).await?;
        }
        Ok(purged_rows)
    }
}
