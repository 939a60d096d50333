//! What the role that serves may do: what the statements of this program need, and nothing else. It
//! owns nothing, so it cannot change the schema, nor take away the policies that hold it.
//!
//! `FOR UPDATE` needs the right to change some column. Where rows are locked only to be deleted, that
//! is the tenant, which policies let only a transaction change that said it is about every one.

use deadpool_postgres::Client;
use scrip_core::store::StoreError;

use crate::postgres::engine::error::{store_error, unavailable};

const READ: &str = "SELECT";
const APPEND: &str = "SELECT, INSERT";
const UPDATE_EXISTING: &str = "SELECT, UPDATE";
const UPSERT: &str = "SELECT, INSERT, UPDATE";
const INSERT_AND_DELETE: &str = "SELECT, INSERT, DELETE";
const INSERT_AND_SWEEP: &str = "SELECT, INSERT, DELETE, UPDATE (tenant)";
const FULL: &str = "SELECT, INSERT, UPDATE, DELETE";

/// Every table. What goes with a row of another one goes by the schema, in the owner's name.
const TABLE_GRANTS: [(&str, &str); 31] = [
    ("schema_state", READ),
    ("system_keys", APPEND),
    ("directory_state", UPDATE_EXISTING),
    ("clock_state", UPSERT),
    ("import_state", FULL),
    ("lanes", UPSERT),
    ("tenants", FULL),
    ("tenant_keys", UPSERT),
    ("lasting_keys", UPSERT),
    ("applications", FULL),
    ("api_keys", INSERT_AND_DELETE),
    ("deleted_tenants", INSERT_AND_DELETE),
    ("access_sessions", FULL),
    ("tokens", FULL),
    ("filed", INSERT_AND_SWEEP),
    ("cvcs", FULL),
    ("usage_types", FULL),
    ("usage_months", FULL),
    ("active_tokens", INSERT_AND_SWEEP),
    ("active_months", FULL),
    ("token_intents", INSERT_AND_SWEEP),
    ("intent_cvcs", INSERT_AND_SWEEP),
    ("sessions", FULL),
    ("session_events", INSERT_AND_SWEEP),
    ("event_state", UPDATE_EXISTING),
    ("guesses", FULL),
    ("answers", INSERT_AND_SWEEP),
    ("answer_data", APPEND),
    ("records", INSERT_AND_DELETE),
    ("heads", UPSERT),
    ("checkpoints", UPSERT),
];

/// Also takes back what it had before and does not need.
pub(crate) async fn grant_serve_role(client: &mut Client, role: &str) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(store_error)?;
    // One at a time: the engine does not let two change the rights on a table at once.
    let sql = "SELECT version FROM schema_state WHERE one = 1 FOR UPDATE";
    transaction.query_one(sql, &[]).await.map_err(store_error)?;
    let sql = "SELECT pg_has_role($1, tableowner, 'MEMBER') FROM pg_tables
        WHERE schemaname = current_schema() AND tablename = 'schema_state'
        AND EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    let row = transaction.query_opt(sql, &[&role]).await.map_err(store_error)?;
    if row.is_some_and(|it| it.try_get(0).unwrap_or(true)) {
        // Cascades run in the owner's name, and would fail without its rights.
        return Err(unavailable(
            "the role that serves is the one that owns the tables, or may become it; name another \
             one, or leave storage.serve_role empty where one role does both",
        ));
    }
    // Quoted by the engine, which knows how.
    let sql = "SELECT quote_ident(rolname), quote_ident(current_schema()) FROM pg_roles
        WHERE rolname = $1";
    let row = transaction.query_opt(sql, &[&role]).await.map_err(store_error)?;
    let row = row.ok_or(unavailable("there is no role of that name to serve"))?;
    let name = |at| row.try_get::<_, &str>(at).map_err(store_error);
    let (role, schema) = (name(0)?, name(1)?);
    let mut grants = format!("GRANT USAGE ON SCHEMA {schema} TO {role};");
    for (table, rights) in TABLE_GRANTS {
        grants.push_str(&format!(
            "REVOKE ALL ON {schema}.{table} FROM {role}; GRANT {rights} ON {schema}.{table} TO {role};"
        ));
    }
    transaction.batch_execute(&grants).await.map_err(store_error)?;
    transaction.commit().await.map_err(store_error)
}
