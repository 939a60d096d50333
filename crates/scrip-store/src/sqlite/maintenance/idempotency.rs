//! Idempotency records.

use rusqlite::Connection;
use scrip_core::{
    idempotency::{IdempotencyLookup, StoredResponse},
    types::StoreError,
};

use crate::{
    shared::idempotency::{decode_stored_response, decode_stored_token_data},
    sql::{Statements, parameters, run_sync_future},
    sqlite::SqliteStore,
};

const FIND_RESPONSE: &str = "
-- find_stored_response
SELECT head, created_at FROM idempotency_records
WHERE digest = $1 AND tenant = $2 AND created_at > $3";

/// Selects by digest and time instead of row number: if the record is replaced between the two
/// statements, the result is empty and never belongs to another record.
const FIND_RESPONSE_TOKEN_DATA: &str = "
-- find_response_token_data
SELECT response_token_data.write_index, tokens.id, tokens.containers, response_token_data.sealed
FROM idempotency_records AS it JOIN response_token_data ON response_token_data.record = it.seq
    JOIN tokens ON tokens.seq = response_token_data.token AND tokens.tenant = it.tenant
WHERE it.digest = $1 AND it.tenant = $2 AND it.created_at = $3
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
ORDER BY response_token_data.write_index";

/// Finds a stored response and its token data with two statements on one connection.
async fn find_stored_response(
    connection: &Connection,
    lookup: IdempotencyLookup,
) -> Result<Option<StoredResponse>, StoreError> {
    let IdempotencyLookup { tenant, digest, now, since } = lookup;
    let key = parameters![&digest, tenant, since];
    let response_row =
        connection.find(FIND_RESPONSE, &key, |row| decode_stored_response(row, digest)).await?;
    let Some(response) = response_row else { return Ok(None) };
    let key = parameters![&digest, tenant, response.created_at, now];
    let token_data = connection
        .query(FIND_RESPONSE_TOKEN_DATA, &key, |row| decode_stored_token_data(row, 0))
        .await?;
    Ok(Some(StoredResponse { token_data, ..response }))
}

impl SqliteStore {
    pub(crate) async fn find_stored_response(
        &self,
        lookup: IdempotencyLookup,
    ) -> Result<Option<StoredResponse>, StoreError> {
        self.readers.read(|it| run_sync_future(find_stored_response(it, lookup)))
    }
}
