//! How late it was, for the next start.

use rusqlite::Connection;
use scrip_core::{store::StoreError, time::Timestamp};

use crate::sqlite::{fault, tokens::execute};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, at) VALUES (1, ?1)
ON CONFLICT (one) DO UPDATE SET at = ?1";

pub(super) fn note_time(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    execute(connection, NOTE_TIME, [now.unix_ms]).map(drop)
}

const LATEST_TIME: &str = "
-- latest_time
SELECT coalesce(
    (SELECT at FROM clock_state),
    (SELECT at FROM audit ORDER BY seq DESC LIMIT 1)
)";

pub(super) fn latest_time(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let latest: Option<i64> =
        connection.query_row(LATEST_TIME, [], |row| row.get(0)).map_err(fault)?;
    Ok(latest.map(|unix_ms| Timestamp { unix_ms }))
}
