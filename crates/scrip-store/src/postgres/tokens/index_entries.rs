//! The entries by which tokens are found: one for each facet in each container.

use scrip_core::{store::StoreError, token::TokenRecord};

use crate::{
    facets::{has_same_index_entries, index_entry_columns},
    postgres::engine::transaction::PostgresTransaction,
    shared::tokens::rows::NumberedToken,
};

const INSERT_INDEX_ENTRIES: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $4, $5
FROM unnest($2::bytea[], $3::text[]) AS it (facet, container)";

pub(crate) const DELETE_INDEX_ENTRIES: &str = "
-- unfile
DELETE FROM filed USING unnest($2::bytea[], $3::text[]) AS it (facet, container)
WHERE filed.tenant = $1 AND filed.facet = it.facet AND filed.container = it.container
    AND filed.created_at = $4 AND filed.token = $5";

/// Most updates change nothing that a token is found by.
pub(crate) async fn replace_index_entries(
    transaction: &PostgresTransaction,
    before: &NumberedToken,
    after: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = before;
    if has_same_index_entries(&token.record, after) {
        return Ok(());
    }
    execute_for_entries(transaction, DELETE_INDEX_ENTRIES, *number, &token.record).await?;
    execute_for_entries(transaction, INSERT_INDEX_ENTRIES, *number, after).await
}

/// Inserts or removes the entries of a token.
pub(crate) async fn execute_for_entries(
    transaction: &PostgresTransaction,
    sql: &str,
    number: i64,
    record: &TokenRecord,
) -> Result<(), StoreError> {
    let (facets, containers) = index_entry_columns(record);
    let (tenant, created_at) = (transaction.tenant.0, record.created_at.unix_ms);
    transaction
        .execute_raw(sql, &[&tenant, &facets, &containers, &created_at, &number])
        .await
        .map(drop)
}
