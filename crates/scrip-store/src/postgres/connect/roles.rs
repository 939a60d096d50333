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

use crate::{
    postgres::engine::error::{store_error, unavailable},
    tables::{FULL, INSERT_AND_DELETE, TABLES},
};

/// Every table and its rights. Those of an entity follow from how its rows are written.
fn table_grants() -> impl Iterator<Item = (&'static str, &'static str)> {
    let entities = ENTITIES.into_iter().map(|it| match it.writes {
        EntityWrites::Insert => (it.table, INSERT_AND_DELETE),
        EntityWrites::InsertAndUpdate | EntityWrites::Upsert => (it.table, FULL),
    });
    TABLES.iter().map(|it| (it.name, it.rights)).chain(entities)
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
