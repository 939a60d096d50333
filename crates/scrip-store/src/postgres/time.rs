//! How late it was, for the next start.

use scrip_core::{
    store::{KnownTime, StoreError},
    time::Timestamp,
    vault_rows::NotedTime,
};
use scrip_seal::Mac;

use crate::postgres::{
    row::{array, time},
    settings::DeletionClock,
    statement::{Single, PostgresClient, execute, query},
};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest, mac) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET now = $1, earliest = $2, mac = $3";

pub(super) async fn note_time(client: &Single<'_>, noted: NotedTime) -> Result<(), StoreError> {
    let (KnownTime { now, earliest }, mac) = (noted.time, noted.mac.0.as_slice());
    execute(client, NOTE_TIME, &[&now.unix_ms, &earliest.unix_ms, &mac]).await.map(drop)
}

const KNOWN_TIME: &str = "
-- known_time
SELECT now, earliest, mac FROM clock_state";

/// A mac that cannot be read is no mac of ours.
pub(super) async fn known_time(client: &impl PostgresClient) -> Result<Option<NotedTime>, StoreError> {
    let rows = query(client, KNOWN_TIME, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let known = KnownTime { now: time(row, 0)?, earliest: time(row, 1)? };
    Ok(Some(NotedTime { time: known, mac: Mac(array(row, 2).unwrap_or_default()) }))
}

const DATABASE_TIME: &str = "
-- database_time
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The earlier of this time and that of the database's own clock.
pub(super) async fn not_after(
    client: &impl PostgresClient,
    clock: DeletionClock,
    at: Timestamp,
) -> Result<Timestamp, StoreError> {
    if clock == DeletionClock::OfNode {
        return Ok(at);
    }
    let rows = query(client, DATABASE_TIME, &[]).await?;
    let row = rows.first().ok_or(StoreError::Corrupt("the database has no time"))?;
    Ok(at.min(time(row, 0)?))
}
