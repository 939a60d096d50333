//! How late it was, for the next start.

use rusqlite::{Connection, OptionalExtension, Row};
use scrip_core::{
    store::{KnownTime, StoreError},
    time::Timestamp,
};

use crate::sqlite::{fault, tokens::execute};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest) VALUES (1, ?1, ?2)
ON CONFLICT (one) DO UPDATE SET now = ?1, earliest = ?2";

pub(super) fn note_time(connection: &Connection, time: KnownTime) -> Result<(), StoreError> {
    execute(connection, NOTE_TIME, [time.now.unix_ms, time.earliest.unix_ms]).map(drop)
}

const KNOWN_TIME: &str = "
-- known_time
SELECT now, earliest FROM clock_state
UNION ALL SELECT at, at FROM (SELECT max(at) AS at FROM audit_heads) WHERE at IS NOT NULL
LIMIT 1";

pub(super) fn known_time(connection: &Connection) -> Result<Option<KnownTime>, StoreError> {
    let known = |row: &Row<'_>| {
        let [now, earliest] = [row.get(0)?, row.get(1)?].map(|unix_ms| Timestamp { unix_ms });
        Ok(KnownTime { now, earliest })
    };
    connection.query_row(KNOWN_TIME, [], known).optional().map_err(fault)
}
