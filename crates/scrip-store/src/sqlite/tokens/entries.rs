//! The entries by which tokens are found: one for each facet in each container.

use rusqlite::Connection;
use scrip_core::{id::TenantId, store::StoreError, token::TokenRecord};

use crate::{
    facets::{entries, is_found_alike},
    rules::tokens::rows::NumberedToken,
    sql::parameters,
    sqlite::engine::statement::execute,
};

pub(crate) const INSERT_ENTRY: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token) VALUES ($1, $2, $3, $4, $5)";

pub(crate) const REMOVE_ENTRY: &str = "
-- unfile
DELETE FROM filed
WHERE tenant = $1 AND facet = $2 AND container = $3 AND created_at = $4 AND token = $5";

pub(crate) const STATEMENTS: &[&str] = &[INSERT_ENTRY, REMOVE_ENTRY];

/// Most updates change nothing that a token is found by.
pub(crate) fn replace_entries(
    connection: &Connection,
    tenant: TenantId,
    before: &NumberedToken,
    after: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = before;
    if is_found_alike(&token.record, after) {
        return Ok(());
    }
    each_entry(connection, REMOVE_ENTRY, tenant, *number, &token.record)?;
    each_entry(connection, INSERT_ENTRY, tenant, *number, after)
}

/// Inserts or removes the entries of a token.
pub(crate) fn each_entry(
    connection: &Connection,
    sql: &str,
    tenant: TenantId,
    seq: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    for (facet, container) in entries(record) {
        let entry = parameters![tenant, facet, container, record.created_at, seq];
        execute(connection, sql, &entry)?;
    }
    Ok(())
}
