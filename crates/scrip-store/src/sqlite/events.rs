//! What is to be told of sessions, kept in the order of its commits.

use rusqlite::{Connection, Row, named_params};
use scrip_core::{id::TenantId, store::StoreError, threeds::EventRecord, time::Timestamp};
use scrip_seal::Sealed;

use crate::sqlite::{fault, row::uuid, tokens::execute};

const FORGOTTEN_AT_ONCE: i64 = 256;

/// Behind all that there are, also where somebody set the number back.
const NEXT_EVENT: &str = "
-- next_event
UPDATE event_state
SET last = max(last, coalesce((SELECT max(seq) FROM session_events), 0)) + 1
WHERE one = 1 RETURNING last";

const INSERT_EVENT: &str = "
-- insert_event
INSERT INTO session_events (seq, tenant, id, at, body) VALUES (:seq, :tenant, :id, :at, :body)";

pub(super) fn insert_events(
    connection: &Connection,
    events: &[EventRecord],
) -> Result<(), StoreError> {
    for event in events {
        let mut statement = connection.prepare_cached(NEXT_EVENT).map_err(fault)?;
        let seq: i64 = statement.query_row([], |row| row.get(0)).map_err(fault)?;
        let parameters = named_params! {
            ":seq": seq,
            ":tenant": event.tenant.0.as_bytes(),
            ":id": event.id.as_bytes(),
            ":at": event.at.unix_ms,
            ":body": event.body.as_bytes(),
        };
        execute(connection, INSERT_EVENT, parameters)?;
    }
    Ok(())
}

const LIST_EVENTS: &str = "
-- list_events
SELECT seq, tenant, id, at, body FROM session_events WHERE seq > ?1 ORDER BY seq LIMIT ?2";

pub(super) fn list_events(
    connection: &Connection,
    after: i64,
    events_max: usize,
) -> Result<Vec<(i64, EventRecord)>, StoreError> {
    let mut statement = connection.prepare_cached(LIST_EVENTS).map_err(fault)?;
    let limit = i64::try_from(events_max).unwrap_or(i64::MAX);
    let rows = statement.query_map((after, limit), event);
    rows.and_then(Iterator::collect).map_err(fault)
}

fn event(row: &Row<'_>) -> rusqlite::Result<(i64, EventRecord)> {
    let record = EventRecord {
        tenant: TenantId(uuid(row.get(1)?)),
        id: uuid(row.get(2)?),
        at: Timestamp { unix_ms: row.get(3)? },
        body: Sealed::from_stored(row.get(4)?),
    };
    Ok((row.get(0)?, record))
}

const FORGET_EVENTS: &str = "
-- forget_events
DELETE FROM session_events WHERE seq IN (
    SELECT seq FROM session_events WHERE at <= ?1 ORDER BY at LIMIT ?2
)";

pub(super) fn forget_events(
    connection: &Connection,
    before: Timestamp,
) -> Result<usize, StoreError> {
    execute(connection, FORGET_EVENTS, (before.unix_ms, FORGOTTEN_AT_ONCE))
}
