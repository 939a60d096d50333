//! Rows that deleted tenants left.

use scrip_core::{id::TenantId, store::StoreError, time::Timestamp};
use uuid::Uuid;

use crate::{
    postgres::{
        PostgresStore,
        engine::{row::column, statement::PostgresClient},
    },
    shared::policy::changes::LATE_WRITES_MS,
    sql::delete_some,
};

const PURGE_BATCH: i64 = 256;

/// Some rows of a table that belong to a tenant that is deleted.
macro_rules! purge {
    ($table:literal, $key:literal) => {
        delete_some!(postgres, concat!("purge_", $table), $table, "tenant = ANY ($1)", $key)
    };
}

const PURGE_STATEMENTS: [&str; 8] = [
    purge!("active_tokens", "tenant, month, token"),
    purge!("active_months", "tenant, month"),
    purge!("tokens", "tenant, number"),
    purge!("filed", "tenant, facet, container, created_at, token"),
    purge!("token_intents", "tenant, id"),
    purge!("sessions", "tenant, id"),
    purge!("session_events", "tenant, seq"),
    purge!("guesses", "tenant, bucket, number"),
];

/// Only where there is nothing left: rows that another node was about to purge are skipped above,
/// and stay where that fails.
const DELETE_PURGED_TENANTS: &str = "
-- forget_deleted_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM active_tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM active_months WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM filed WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_intents WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM sessions WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM session_events WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM guesses WHERE tenant = it.id)";

/// Those of these tenants that have no row any more.
const FIND_TENANTS_WITHOUT_ROW: &str = "
-- find_tenants_without_row
SELECT it FROM unnest($1::uuid[]) AS it WHERE it NOT IN (SELECT id FROM tenants)";

impl PostgresStore {
    /// Each statement is a transaction of its own; there is nothing left that they must agree on.
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
        let deleted = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<Uuid>, _>>()?;
        let mut purged = 0_usize;
        for sql in PURGE_STATEMENTS {
            let rows = client.execute_raw(sql, &[&deleted, &PURGE_BATCH]).await?;
            purged = purged.saturating_add(rows);
        }
        if purged == 0 {
            let before = now.unix_ms.saturating_sub(LATE_WRITES_MS);
            client.execute_raw(DELETE_PURGED_TENANTS, &[&before, &deleted]).await?;
        }
        Ok(purged)
    }
}
