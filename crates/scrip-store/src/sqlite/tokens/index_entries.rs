//! Entries of the token index: one per facet and container.

use rusqlite::Connection;
use scrip_core::{
    token::TokenRecord,
    types::{StoreError, id::TenantId},
};

use crate::{
    facets::{has_same_index_entries, index_entries},
    shared::tokens::rows::NumberedToken,
    sql::parameters,
    sqlite::engine::statement::execute,
};

pub(crate) const INSERT_INDEX_ENTRY: &str = "
-- insert_index_entries
INSERT INTO token_index (tenant, facet, container, created_at, token) VALUES ($1, $2, $3, $4, $5)";

pub(crate) const DELETE_INDEX_ENTRY: &str = "
-- delete_index_entries
DELETE FROM token_index
WHERE tenant = $1 AND facet = $2 AND container = $3 AND created_at = $4 AND token = $5";

pub(crate) const STATEMENTS: &[&str] = &[INSERT_INDEX_ENTRY, DELETE_INDEX_ENTRY];

/// Replaces the index entries of a token if they changed. Most updates do not change them.
pub(crate) fn replace_index_entries(
    connection: &Connection,
    tenant: TenantId,
    previous: &NumberedToken,
    updated: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = previous;
    if has_same_index_entries(&token.record, updated) {
        return Ok(());
    }
    execute_for_entries(connection, DELETE_INDEX_ENTRY, tenant, *number, &token.record)?;
    execute_for_entries(connection, INSERT_INDEX_ENTRY, tenant, *number, updated)
}

/// Inserts or deletes the index entries of a token.
pub(crate) fn execute_for_entries(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    for (facet, container) in index_entries(record) {
        let entry = parameters![tenant, facet, container, record.created_at, seq];
        execute(connection, sql, &entry)?;
    }
    Ok(())
}
