//! Usage of a tenant. Token counts change with each write (`engine/usage.rs`); active tokens are
//! recorded by the read log (`audit/active_tokens.rs`).

use rusqlite::Connection;
use scrip_core::{
    store::TenantUsage,
    types::{StoreError, id::TenantId, time::Month},
};

use crate::{
    shared::usage::{decode_count, decode_type_usage},
    sql::{Statements, parameters, run_sync_future},
    sqlite::{SqliteStore, engine::statement::with_snapshot},
};

const FIND_TYPES: &str = "
-- find_usage_types
SELECT type, count, last_created_at FROM usage_types WHERE tenant = $1 ORDER BY type";

const FIND_CREATED: &str = "
-- find_created
SELECT created FROM usage_months WHERE tenant = $1 AND month = $2";

/// Reads the read-log database.
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
    let count = connection.find(sql, &key, |row| decode_count(row, 0));
    Ok(run_sync_future(count)?.unwrap_or(0))
}

impl SqliteStore {
    pub(crate) async fn load_usage(
        &self,
        tenant: TenantId,
        month: Month,
    ) -> Result<TenantUsage, StoreError> {
        let find_counts = |it: &Connection| {
            with_snapshot(it, || {
                let types =
                    run_sync_future(it.query(FIND_TYPES, &parameters![tenant], decode_type_usage))?;
                Ok((types, find_month_count(it, FIND_CREATED, tenant, month)?))
            })
        };
        let (types, created) = self.readers.read(find_counts)?;
        let active =
            self.read_log.readers.read(|it| find_month_count(it, FIND_ACTIVE, tenant, month))?;
        Ok(TenantUsage { types, created, active })
    }
}
