//! Remembered answers.

use rusqlite::Connection;
use scrip_core::{
    idempotency::{AskedAnswer, StoredAnswer},
    store::StoreError,
};

use crate::{
    rules::answers::{stored_answer, stored_part},
    sql::{Statements, parameters, run_ready},
    sqlite::SqliteStore,
};

const FIND_ANSWER: &str = "
-- find_answer
SELECT head, created_at FROM answers WHERE digest = $1 AND tenant = $2 AND created_at > $3";

/// Named by digest and time, not by its row: should it be replaced between the two statements, it
/// has no parts, rather than another's.
const FIND_PARTS: &str = "
-- find_parts
SELECT answer_data.at, tokens.id, tokens.containers, answer_data.sealed
FROM answers JOIN answer_data ON answer_data.answer = answers.seq
    JOIN tokens ON tokens.seq = answer_data.token AND tokens.tenant = answers.tenant
WHERE answers.digest = $1 AND answers.tenant = $2 AND answers.created_at = $3
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
ORDER BY answer_data.at";

/// On one connection.
async fn find_answer(
    connection: &Connection,
    asked: AskedAnswer,
) -> Result<Option<StoredAnswer>, StoreError> {
    let AskedAnswer { tenant, digest, now, since } = asked;
    let of = parameters![&digest, tenant, since];
    let found = connection.find(FIND_ANSWER, &of, |row| stored_answer(row, digest)).await?;
    let Some(answer) = found else { return Ok(None) };
    let of = parameters![&digest, tenant, answer.created_at, now];
    let parts = connection.query(FIND_PARTS, &of, |row| stored_part(row, 0)).await?;
    Ok(Some(StoredAnswer { parts, ..answer }))
}

impl SqliteStore {
    pub(crate) async fn find_answer(
        &self,
        asked: AskedAnswer,
    ) -> Result<Option<StoredAnswer>, StoreError> {
        self.readers.read(|it| run_ready(find_answer(it, asked)))
    }
}
