//! Remembered answers.

use rusqlite::Connection;
use scrip_core::{
    idempotency::{IdempotencyLookup, StoredResponse},
    store::StoreError,
};

use crate::{
    shared::idempotency::{decode_stored_response, decode_stored_token_data},
    sql::{Statements, parameters, run_ready},
    sqlite::SqliteStore,
};

const FIND_RESPONSE: &str = "
-- find_answer
SELECT head, created_at FROM answers WHERE digest = $1 AND tenant = $2 AND created_at > $3";

/// Named by digest and time, not by its row: should it be replaced between the two statements, it
/// has no parts, rather than another's.
const FIND_RESPONSE_TOKEN_DATA: &str = "
-- find_parts
SELECT answer_data.at, tokens.id, tokens.containers, answer_data.sealed
FROM answers JOIN answer_data ON answer_data.answer = answers.seq
    JOIN tokens ON tokens.seq = answer_data.token AND tokens.tenant = answers.tenant
WHERE answers.digest = $1 AND answers.tenant = $2 AND answers.created_at = $3
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
ORDER BY answer_data.at";

/// On one connection.
async fn find_stored_response(
    connection: &Connection,
    lookup: IdempotencyLookup,
) -> Result<Option<StoredResponse>, StoreError> {
    let IdempotencyLookup { tenant, digest, now, since } = lookup;
    let key = parameters![&digest, tenant, since];
    let found =
        connection.find(FIND_RESPONSE, &key, |row| decode_stored_response(row, digest)).await?;
    let Some(response) = found else { return Ok(None) };
    let key = parameters![&digest, tenant, response.created_at, now];
    let parts = connection
        .query(FIND_RESPONSE_TOKEN_DATA, &key, |row| decode_stored_token_data(row, 0))
        .await?;
    Ok(Some(StoredResponse { token_data: parts, ..response }))
}

impl SqliteStore {
    pub(crate) async fn find_stored_response(
        &self,
        lookup: IdempotencyLookup,
    ) -> Result<Option<StoredResponse>, StoreError> {
        self.readers.read(|it| run_ready(find_stored_response(it, lookup)))
    }
}
