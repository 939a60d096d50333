//! The entries by which tokens are found: one for each facet in each container.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, token::TokenRecord};

use crate::{
    facets::{has_same_index_entries, index_entries},
    shared::tokens::rows::NumberedToken,
    sql::parameters,
    sqlite::engine::statement::execute,
};

pub(crate) const INSERT_INDEX_ENTRY: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token) VALUES ($1, $2, $3, $4, $5)";

pub(crate) const DELETE_INDEX_ENTRY: &str = "
-- unfile
DELETE FROM filed
WHERE tenant = $1 AND facet = $2 AND container = $3 AND created_at = $4 AND token = $5";

pub(crate) const STATEMENTS: &[&str] = &[INSERT_INDEX_ENTRY, DELETE_INDEX_ENTRY];

/// Most updates change nothing that a token is found by.
pub(crate) fn replace_index_entries(
    connection: &Connection,
    tenant: TenantId,
    before: &NumberedToken,
    after: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = before;
    if has_same_index_entries(&token.record, after) {
        return Ok(());
    }
    execute_for_entries(connection, DELETE_INDEX_ENTRY, tenant, *number, &token.record)?;
    execute_for_entries(connection, INSERT_INDEX_ENTRY, tenant, *number, after)
}

/// Inserts or removes the entries of a token.
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
