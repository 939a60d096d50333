//! Rotations of sealing keys.

use scrip_core::{
    keys::{ResealedRow, RotatedTable, key_rotation::VersionCount},
    types::{StoreError, id::TenantId},
};

use crate::{
    sealed_columns::{SealedDatabase, SealedTreatment, sealed_columns},
    shared::key_rotations::{RotationTransaction, decode_version, key_parameters},
    sql::{ColumnReader, Parameter, Statements, parameters, read_required},
    sqlite::{
        SqliteStore,
        engine::{statement::execute, transaction::SqliteTransaction},
    },
};

/// Replaces a body that is unchanged.
const REPLACE_TOKEN: &str = "
-- replace_token_body
UPDATE tokens SET body = $1 WHERE tenant = $2 AND body = $3 AND id = $4";
const REPLACE_INTENT: &str = "
-- replace_intent_body
UPDATE token_intents SET body = $1 WHERE tenant = $2 AND body = $3 AND id = $4";
const REPLACE_SESSION: &str = "
-- replace_session_body
UPDATE threeds_sessions SET body = $1 WHERE tenant = $2 AND body = $3 AND id = $4";
const REPLACE_DELIVERY: &str = "
-- replace_delivery_body
UPDATE deliveries SET body = $1 WHERE tenant = $2 AND body = $3 AND webhook = $4 AND event = $5";

impl RotationTransaction for SqliteTransaction<'_> {
    async fn replace_bodies(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        rows: &[ResealedRow],
    ) -> Result<usize, StoreError> {
        let sql = match table {
            RotatedTable::Tokens => REPLACE_TOKEN,
            RotatedTable::TokenIntents => REPLACE_INTENT,
            RotatedTable::ThreeDsSessions => REPLACE_SESSION,
            RotatedTable::Deliveries => REPLACE_DELIVERY,
        };
        let mut replaced = 0_usize;
        for row in rows {
            let mut values: Vec<Parameter<'_>> = parameters![&row.new, tenant, &row.old].into();
            values.extend(key_parameters(&row.key));
            replaced = replaced.saturating_add(execute(self, sql, &values)?);
        }
        Ok(replaced)
    }
}

/// The rows of a tenant. The token data of a stored response belongs to the tenant of the response.
pub(crate) fn tenant_filter(table: &str) -> &'static str {
    match table {
        "response_token_data" => {
            "record IN (SELECT seq FROM idempotency_records WHERE tenant = $1)"
        }
        _ => "tenant = $1",
    }
}

impl SqliteStore {
    pub(crate) async fn count_other_versions(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<VersionCount>, StoreError> {
        let mut counts = Vec::new();
        for column in sealed_columns() {
            if let SealedTreatment::Resealed(_) = column.treatment {
                continue;
            }
            let readers = match column.database {
                SealedDatabase::Vault => &self.readers,
                SealedDatabase::SqliteReadLog => &self.read_log.readers,
            };
            let decode = |row: &dyn ColumnReader| {
                let rows = read_required::<i64>(row, 1)?.unsigned_abs();
                Ok(VersionCount { column: column.name(), version: decode_version(row, 0)?, rows })
            };
            let sql = column.count_statement(tenant_filter(column.table));
            counts.extend(readers.query(&sql, &parameters![tenant], decode).await?);
        }
        Ok(counts)
    }
}
