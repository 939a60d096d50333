//! How late it was, for the next start.

use rusqlite::{Connection, OptionalExtension, Row};
use scrip_core::{
    store::{KnownTime, StoreError},
    time::Timestamp,
    vault_rows::NotedTime,
};
use scrip_seal::Mac;

use crate::sqlite::{fault, tokens::execute};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest, mac) VALUES (1, ?1, ?2, ?3)
ON CONFLICT (one) DO UPDATE SET now = ?1, earliest = ?2, mac = ?3";

pub(super) fn note_time(connection: &Connection, noted: NotedTime) -> Result<(), StoreError> {
    let KnownTime { now, earliest } = noted.time;
    execute(connection, NOTE_TIME, (now.unix_ms, earliest.unix_ms, noted.mac.0)).map(drop)
}

const KNOWN_TIME: &str = "
-- known_time
SELECT now, earliest, mac FROM clock_state";

/// A mac that cannot be read is no mac of ours.
pub(super) fn known_time(connection: &Connection) -> Result<Option<NotedTime>, StoreError> {
    let known = |row: &Row<'_>| {
        let [now, earliest] = [row.get(0)?, row.get(1)?].map(|unix_ms| Timestamp { unix_ms });
        let mac = Mac(row.get(2).unwrap_or_default());
        Ok(NotedTime { time: KnownTime { now, earliest }, mac })
    };
    connection.query_row(KNOWN_TIME, [], known).optional().map_err(fault)
}
