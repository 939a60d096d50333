//! Rights of the serving role: exactly those that the statements of this program need. The role
//! owns no table, so it can neither change the schema nor remove row-level security policies.
//!
//! `FOR UPDATE` needs the right to update some column. For rows that are locked only to be deleted,
//! that column is the tenant. The policies let a transaction change the tenant only in the scope of
//! all tenants.

use deadpool_postgres::Client;
use scrip_core::{
    policy::{ENTITIES, entity::EntityWrites},
    types::StoreError,
};

use crate::postgres::engine::error::{store_error, unavailable};

const READ: &str = "SELECT";
const APPEND: &str = "SELECT, INSERT";
const UPDATE_EXISTING: &str = "SELECT, UPDATE";
const UPSERT: &str = "SELECT, INSERT, UPDATE";
const INSERT_AND_DELETE: &str = "SELECT, INSERT, DELETE";
const INSERT_AND_LOCK_FOR_DELETE: &str = "SELECT, INSERT, DELETE, UPDATE (tenant)";
/// A key rotation replaces the sealed body, and the one of fingerprint keys the fingerprint.
const INSERT_RENEW_AND_DELETE: &str = "SELECT, INSERT, DELETE, UPDATE (tenant, fingerprint, body)";
const FULL: &str = "SELECT, INSERT, UPDATE, DELETE";

/// The tables without policy and their rights. Cascading deletes run with the owner's rights and need no grant.
const TABLE_GRANTS: [(&str, &str); 31] = [
    ("schema_state", READ),
    ("system_keys", UPSERT),
    ("vault_state", UPSERT),
    ("unlocks", FULL),
    ("dual_control", FULL),
    ("approvals", FULL),
    ("directory_state", UPDATE_EXISTING),
    ("clock_watermark", UPSERT),
    ("import_state", FULL),
    ("tenant_locks", UPSERT),
    ("tenant_keys", FULL),
    ("permanent_keys", UPSERT),
    ("key_rotations", FULL),
    ("deleted_tenants", INSERT_AND_DELETE),
    ("tokens", FULL),
    ("token_index", INSERT_AND_LOCK_FOR_DELETE),
    ("cvcs", FULL),
    ("usage_types", FULL),
    ("usage_months", FULL),
    ("active_tokens", INSERT_AND_LOCK_FOR_DELETE),
    ("active_months", FULL),
    ("token_intents", INSERT_RENEW_AND_DELETE),
    ("intent_cvcs", INSERT_AND_LOCK_FOR_DELETE),
    ("threeds_sessions", FULL),
    ("deliveries", FULL),
    ("guesses", FULL),
    ("idempotency_records", INSERT_AND_LOCK_FOR_DELETE),
    ("response_token_data", APPEND),
    ("log_records", INSERT_AND_DELETE),
    ("chain_heads", UPSERT),
    ("chain_checkpoints", UPSERT),
];

/// Every table and its rights. Those of an entity follow from how its rows are written.
fn table_grants() -> impl Iterator<Item = (&'static str, &'static str)> {
    let entities = ENTITIES.into_iter().map(|it| match it.writes {
        EntityWrites::Insert => (it.table, INSERT_AND_DELETE),
        EntityWrites::InsertAndUpdate | EntityWrites::Upsert => (it.table, FULL),
    });
    TABLE_GRANTS.into_iter().chain(entities)
}

/// Grants the rights of the serving role, and revokes earlier rights that the role does not need.
pub(crate) async fn grant_serve_role(client: &mut Client, role: &str) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(store_error)?;
    // One node at a time: PostgreSQL rejects concurrent changes of the rights on a table.
    let sql = "SELECT version FROM schema_state WHERE singleton = 1 FOR UPDATE";
    transaction.query_one(sql, &[]).await.map_err(store_error)?;
    let sql = "SELECT pg_has_role($1, tableowner, 'MEMBER') FROM pg_tables
        WHERE schemaname = current_schema() AND tablename = 'schema_state'
        AND EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    let row = transaction.query_opt(sql, &[&role]).await.map_err(store_error)?;
    if row.is_some_and(|it| it.try_get(0).unwrap_or(true)) {
        // Cascading deletes run as the owner and would fail without the owner's rights.
        return Err(unavailable(
            "the serving role owns the tables or is a member of the owner; set another role, \
             or leave storage.serve_role empty to use one role for both",
        ));
    }
    // The server quotes the identifiers.
    let sql = "SELECT quote_ident(rolname), quote_ident(current_schema()) FROM pg_roles
        WHERE rolname = $1";
    let row = transaction.query_opt(sql, &[&role]).await.map_err(store_error)?;
    let row = row.ok_or(unavailable("the role of storage.serve_role does not exist"))?;
    let read_name = |index| row.try_get::<_, &str>(index).map_err(store_error);
    let (role, schema) = (read_name(0)?, read_name(1)?);
    let mut grants = format!("GRANT USAGE ON SCHEMA {schema} TO {role};");
    for (table, rights) in table_grants() {
        grants.push_str(&format!(
            "REVOKE ALL ON {schema}.{table} FROM {role}; GRANT {rights} ON {schema}.{table} TO {role};"
        ));
    }
    transaction.batch_execute(&grants).await.map_err(store_error)?;
    transaction.commit().await.map_err(store_error)
}
