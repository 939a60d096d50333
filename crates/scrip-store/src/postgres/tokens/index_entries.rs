//! Entries of the token index: one per facet and container.

use scrip_core::{token::TokenRecord, types::StoreError};

use crate::{
    facets::{has_same_index_entries, index_entry_columns},
    postgres::engine::transaction::PostgresTransaction,
    shared::tokens::rows::NumberedToken,
};

const INSERT_INDEX_ENTRIES: &str = "
-- insert_index_entries
INSERT INTO token_index (tenant, facet, container, created_at, token)
    SELECT $1, it.facet, it.container, $4, $5
FROM unnest($2::bytea[], $3::text[]) AS it (facet, container)";

pub(crate) const DELETE_INDEX_ENTRIES: &str = "
-- delete_index_entries
DELETE FROM token_index USING unnest($2::bytea[], $3::text[]) AS it (facet, container)
WHERE token_index.tenant = $1 AND token_index.facet = it.facet AND token_index.container = it.container
    AND token_index.created_at = $4 AND token_index.token = $5";

/// Replaces the index entries of a token if they changed. Most updates do not change them.
pub(crate) async fn replace_index_entries(
    transaction: &PostgresTransaction,
    previous: &NumberedToken,
    updated: &TokenRecord,
) -> Result<(), StoreError> {
    let NumberedToken { number, token } = previous;
    if has_same_index_entries(&token.record, updated) {
        return Ok(());
    }
    execute_for_entries(transaction, DELETE_INDEX_ENTRIES, *number, &token.record).await?;
    execute_for_entries(transaction, INSERT_INDEX_ENTRIES, *number, updated).await
}

/// Inserts or deletes the index entries of a token.
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
