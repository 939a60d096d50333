//! The counts of the guessing budget and the search budget.

use rusqlite::{Connection, Row};
use scrip_core::{
    guessing_budget::{Bucket, GuessRecord, GuessStore},
    id::TenantId,
    store::{StoreError, StoreFuture},
    time::Timestamp,
};

use crate::sqlite::{SqliteStore, fault, tokens::execute};

impl GuessStore for SqliteStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [Bucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        Box::pin(async move { self.readers.read(|it| find_guesses(it, tenant, buckets, now)) })
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| insert_guesses(it, tenant, &records)))
    }

    fn sweep_guesses(&self, expired: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep_guesses(it, expired)))
    }
}

const FIND_GUESSES: &str = "
-- find_guesses
SELECT number, counted_at, expires_at FROM guesses
WHERE tenant = ?1 AND bucket = ?2 AND expires_at > ?3";

fn find_guesses(
    connection: &Connection,
    tenant: TenantId,
    buckets: &[Bucket],
    now: Timestamp,
) -> Result<Vec<GuessRecord>, StoreError> {
    let mut statement = connection.prepare_cached(FIND_GUESSES).map_err(fault)?;
    let mut found = Vec::new();
    for bucket in buckets {
        let record = |row: &Row<'_>| {
            Ok(GuessRecord {
                bucket: *bucket,
                number: row.get(0)?,
                at: Timestamp { unix_ms: row.get(1)? },
                expires_at: Timestamp { unix_ms: row.get(2)? },
            })
        };
        let parameters = (tenant.0.as_bytes(), bucket.0, now.unix_ms);
        for row in statement.query_map(parameters, record).map_err(fault)? {
            found.push(row.map_err(fault)?);
        }
    }
    Ok(found)
}

const INSERT_GUESS: &str = "
-- insert_guess
INSERT INTO guesses (tenant, bucket, number, counted_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (tenant, bucket, number) DO UPDATE SET
    counted_at = max(counted_at, ?4), expires_at = max(expires_at, ?5)";

fn insert_guesses(
    connection: &Connection,
    tenant: TenantId,
    records: &[GuessRecord],
) -> Result<(), StoreError> {
    for GuessRecord { bucket, number, at, expires_at } in records {
        let parameters = (tenant.0.as_bytes(), bucket.0, number, at.unix_ms, expires_at.unix_ms);
        execute(connection, INSERT_GUESS, parameters)?;
    }
    Ok(())
}

const SWEPT_AT_ONCE: i64 = 128;

const SWEEP_GUESSES: &str = "
-- sweep_guesses
DELETE FROM guesses WHERE (tenant, bucket, number) IN (
    SELECT tenant, bucket, number FROM guesses WHERE expires_at <= ?1 LIMIT ?2)";

fn sweep_guesses(connection: &Connection, expired: Timestamp) -> Result<usize, StoreError> {
    execute(connection, SWEEP_GUESSES, (expired.unix_ms, SWEPT_AT_ONCE))
}
