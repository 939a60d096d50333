//! What the role that serves may do: what the statements of this program need, and nothing else. It
//! owns nothing, so it cannot change the schema, nor take away the policies that hold it.
//!
//! `FOR UPDATE` needs the right to change some column. Where rows are locked only to be deleted, that
//! is the tenant, which policies let only a transaction change that said it is about every one.

use deadpool_postgres::Client;
use scrip_core::store::StoreError;

use crate::postgres::engine::fault::{fault, unavailable};

const READS: &str = "SELECT";
const ADDS: &str = "SELECT, INSERT";
const COUNTS: &str = "SELECT, UPDATE";
const KEEPS: &str = "SELECT, INSERT, UPDATE";
const REMOVES: &str = "SELECT, INSERT, DELETE";
const SWEEPS: &str = "SELECT, INSERT, DELETE, UPDATE (tenant)";
const CHANGES: &str = "SELECT, INSERT, UPDATE, DELETE";

/// Every table. What goes with a row of another one goes by the schema, in the owner's name.
const RIGHTS: [(&str, &str); 31] = [
    ("schema_state", READS),
    ("system_keys", ADDS),
    ("directory_state", COUNTS),
    ("clock_state", KEEPS),
    ("import_state", CHANGES),
    ("lanes", KEEPS),
    ("tenants", CHANGES),
    ("tenant_keys", KEEPS),
    ("lasting_keys", KEEPS),
    ("applications", CHANGES),
    ("api_keys", REMOVES),
    ("deleted_tenants", REMOVES),
    ("access_sessions", CHANGES),
    ("tokens", CHANGES),
    ("filed", SWEEPS),
    ("cvcs", CHANGES),
    ("usage_types", CHANGES),
    ("usage_months", CHANGES),
    ("active_tokens", SWEEPS),
    ("active_months", CHANGES),
    ("token_intents", SWEEPS),
    ("intent_cvcs", SWEEPS),
    ("sessions", CHANGES),
    ("session_events", SWEEPS),
    ("event_state", COUNTS),
    ("guesses", CHANGES),
    ("answers", SWEEPS),
    ("answer_data", ADDS),
    ("records", REMOVES),
    ("heads", KEEPS),
    ("checkpoints", KEEPS),
];

/// Also takes back what it had before and does not need.
pub(crate) async fn grant(client: &mut Client, role: &str) -> Result<(), StoreError> {
    let transaction = client.transaction().await.map_err(fault)?;
    // One at a time: the engine does not let two change the rights on a table at once.
    let sql = "SELECT version FROM schema_state WHERE one = 1 FOR UPDATE";
    transaction.query_one(sql, &[]).await.map_err(fault)?;
    let sql = "SELECT pg_has_role($1, tableowner, 'MEMBER') FROM pg_tables
        WHERE schemaname = current_schema() AND tablename = 'schema_state'
        AND EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    let row = transaction.query_opt(sql, &[&role]).await.map_err(fault)?;
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
    let row = transaction.query_opt(sql, &[&role]).await.map_err(fault)?;
    let row = row.ok_or(unavailable("there is no role of that name to serve"))?;
    let name = |at| row.try_get::<_, &str>(at).map_err(fault);
    let (role, schema) = (name(0)?, name(1)?);
    let mut grants = format!("GRANT USAGE ON SCHEMA {schema} TO {role};");
    for (table, rights) in RIGHTS {
        grants.push_str(&format!(
            "REVOKE ALL ON {schema}.{table} FROM {role}; GRANT {rights} ON {schema}.{table} TO {role};"
        ));
    }
    transaction.batch_execute(&grants).await.map_err(fault)?;
    transaction.commit().await.map_err(fault)
}
