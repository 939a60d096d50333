//! Usage of a tenant. Token counts change with each write (`usage_columns.rs`); active tokens are
//! recorded by the read log (`audit/active_tokens.rs`).

use scrip_core::{
    store::TenantUsage,
    types::{StoreError, id::TenantId, time::Month},
};

use crate::{
    postgres::PostgresStore,
    shared::usage::{decode_count, decode_type_usage},
    sql::{ColumnReader, Statements, parameters, read_optional},
};

/// One row per token type, and one for the month.
const FIND_USAGE: &str = "
-- find_usage
SELECT type, count, last_created_at FROM usage_types WHERE tenant = $1
UNION ALL SELECT NULL,
    coalesce((SELECT created FROM usage_months WHERE tenant = $1 AND month = $2), 0),
    coalesce((SELECT active FROM active_months WHERE tenant = $1 AND month = $2), 0)
ORDER BY 1";

impl PostgresStore {
    pub(crate) async fn load_usage(
        &self,
        tenant: TenantId,
        month: Month,
    ) -> Result<TenantUsage, StoreError> {
        let decode_row = |row: &dyn ColumnReader| match read_optional::<&str>(row, 0)? {
            None => Ok(Err((decode_count(row, 1)?, decode_count(row, 2)?))),
            Some(_) => decode_type_usage(row).map(Ok),
        };
        let key = parameters![tenant, month];
        let mut usage = TenantUsage { types: Vec::new(), created: 0, active: 0 };
        for row in self.for_tenant(tenant).query(FIND_USAGE, &key, decode_row).await? {
            match row {
                Ok(type_usage) => usage.types.push(type_usage),
                Err((created, active)) => usage = TenantUsage { created, active, ..usage },
            }
        }
        Ok(usage)
    }
}
