//! How late it was, for the next start.

use scrip_core::{audit::NotedTime, store::StoreError, time::KnownTime};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Execute, Statements, parameters, required};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest, mac) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET now = $1, earliest = $2, mac = $3";

pub(crate) async fn note_time(client: &impl Execute, noted: NotedTime) -> Result<(), StoreError> {
    let KnownTime { now, earliest } = noted.time;
    client.execute(NOTE_TIME, &parameters![now, earliest, &noted.mac]).await.map(drop)
}

const KNOWN_TIME: &str = "
-- known_time
SELECT now, earliest, mac FROM clock_state";

pub(crate) async fn known_time(client: &impl Statements) -> Result<Option<NotedTime>, StoreError> {
    client.find(KNOWN_TIME, &[], noted_time).await
}

/// A mac that cannot be read is no mac of ours.
fn noted_time(row: &dyn ColumnReader) -> Result<NotedTime, StoreError> {
    let time = KnownTime { now: required(row, 0)?, earliest: required(row, 1)? };
    Ok(NotedTime { time, mac: required(row, 2).unwrap_or(Mac([0; 32])) })
}
