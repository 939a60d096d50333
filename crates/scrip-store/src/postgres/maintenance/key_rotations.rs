//! Rotations of sealing keys.

use scrip_core::{
    keys::{ResealedRow, RotatedTable, RowKey, key_rotation::VersionCount},
    types::{StoreError, id::TenantId},
};
use uuid::Uuid;

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            scope::RowScope,
            statement::{AutocommitClient, SqlValue},
            transaction::PostgresTransaction,
        },
    },
    sealed_columns::{SealedDatabase, SealedTreatment, sealed_columns},
    shared::key_rotations::{RotationTransaction, decode_version},
    sql::{ColumnReader, Statements, parameters, read_required},
};

/// Replaces the bodies of rows that are unchanged.
const REPLACE_TOKENS: &str = "
-- replace_token_bodies
UPDATE tokens AS row SET body = it.new_body
FROM unnest($2::bytea[], $3::bytea[], $4::text[]) AS it (old_body, new_body, id)
WHERE row.tenant = $1 AND row.body = it.old_body AND row.id = it.id";
const REPLACE_INTENTS: &str = "
-- replace_intent_bodies
UPDATE token_intents AS row SET body = it.new_body
FROM unnest($2::bytea[], $3::bytea[], $4::uuid[]) AS it (old_body, new_body, id)
WHERE row.tenant = $1 AND row.body = it.old_body AND row.id = it.id";
const REPLACE_SESSIONS: &str = "
-- replace_session_bodies
UPDATE threeds_sessions AS row SET body = it.new_body
FROM unnest($2::bytea[], $3::bytea[], $4::uuid[]) AS it (old_body, new_body, id)
WHERE row.tenant = $1 AND row.body = it.old_body AND row.id = it.id";
const REPLACE_DELIVERIES: &str = "
-- replace_delivery_bodies
UPDATE deliveries AS row SET body = it.new_body
FROM unnest($2::bytea[], $3::bytea[], $4::uuid[], $5::uuid[])
    AS it (old_body, new_body, webhook, event)
WHERE row.tenant = $1 AND row.body = it.old_body AND row.webhook = it.webhook
    AND row.event = it.event";

impl RotationTransaction for PostgresTransaction {
    async fn replace_bodies(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        rows: &[ResealedRow],
    ) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let old: Vec<&[u8]> = rows.iter().map(|it| it.old.as_bytes()).collect();
        let new: Vec<&[u8]> = rows.iter().map(|it| it.new.as_bytes()).collect();
        let (mut texts, mut ids, mut events) = (Vec::<&str>::new(), Vec::new(), Vec::<Uuid>::new());
        for row in rows {
            match &row.key {
                RowKey::Token(id) => texts.push(id),
                RowKey::TokenIntent(id) | RowKey::ThreeDsSession(id) => ids.push(*id),
                RowKey::Delivery { webhook, event } => {
                    ids.push(*webhook);
                    events.push(*event);
                }
            }
        }
        let bodies: [SqlValue<'_>; 3] = [&tenant.0, &old, &new];
        let (sql, keys): (_, Vec<SqlValue<'_>>) = match table {
            RotatedTable::Tokens => (REPLACE_TOKENS, vec![&texts]),
            RotatedTable::TokenIntents => (REPLACE_INTENTS, vec![&ids]),
            RotatedTable::ThreeDsSessions => (REPLACE_SESSIONS, vec![&ids]),
            RotatedTable::Deliveries => (REPLACE_DELIVERIES, vec![&ids, &events]),
        };
        let parameters: Vec<_> = bodies.into_iter().chain(keys).collect();
        self.execute_raw(sql, &parameters).await
    }
}

impl PostgresStore {
    pub(crate) async fn count_other_versions(
        &self,
        tenant: TenantId,
    ) -> Result<Vec<VersionCount>, StoreError> {
        let client = AutocommitClient::with_long_timeout(&self.pool, RowScope::for_tenant(tenant));
        let mut counts = Vec::new();
        for column in sealed_columns() {
            let is_resealed = matches!(column.treatment, SealedTreatment::Resealed(_));
            if is_resealed || column.database != SealedDatabase::Vault {
                continue;
            }
            let decode = |row: &dyn ColumnReader| {
                let rows = read_required::<i64>(row, 1)?.unsigned_abs();
                Ok(VersionCount { column: column.name(), version: decode_version(row, 0)?, rows })
            };
            let sql = column.count_statement("tenant = $1");
            counts.extend(client.query(&sql, &parameters![tenant], decode).await?);
        }
        Ok(counts)
    }
}
