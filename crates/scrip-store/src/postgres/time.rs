//! How late it was, for the next start.

use scrip_core::store::{KnownTime, StoreError};

use crate::postgres::{
    row::time,
    statement::{Single, Statements, execute, query},
};

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest) VALUES (1, $1, $2)
ON CONFLICT (one) DO UPDATE SET now = $1, earliest = $2";

pub(super) async fn note_time(
    client: &Single<'_>,
    KnownTime { now, earliest }: KnownTime,
) -> Result<(), StoreError> {
    execute(client, NOTE_TIME, &[&now.unix_ms, &earliest.unix_ms]).await.map(drop)
}

const KNOWN_TIME: &str = "
-- known_time
SELECT now, earliest FROM clock_state
UNION ALL SELECT at, at FROM (SELECT max(at) AS at FROM heads WHERE log = 'audit') AS it
WHERE at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM clock_state)";

pub(super) async fn known_time(client: &impl Statements) -> Result<Option<KnownTime>, StoreError> {
    let rows = query(client, KNOWN_TIME, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(KnownTime { now: time(row, 0)?, earliest: time(row, 1)? }))
}
