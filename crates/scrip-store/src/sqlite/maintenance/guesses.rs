//! Counters of the guessing budget and the search budget.

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    audit::LogKind,
    equality::{GuessBucket, GuessRecord, GuessStore},
    types::{StoreError, StoreFuture, id::TenantId},
};

use crate::{
    shared::usage::{DELETE_EXPIRED_GUESSES, decode_guess},
    sql::{Statements, parameters, run_sync_future},
    sqlite::{SqliteStore, engine::statement::execute},
};

const FIND_GUESSES: &str = "
-- find_guesses
SELECT bucket, number_digest, counted_at, expires_at FROM guesses
WHERE tenant = $1 AND bucket = $2 AND expires_at > $3";

const INSERT_GUESS: &str = "
-- insert_guess
INSERT INTO guesses (tenant, bucket, number_digest, counted_at, expires_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, bucket, number_digest) DO UPDATE SET
    counted_at = max(counted_at, $4), expires_at = max(expires_at, $5)";

fn find_guesses(
    connection: &Connection,
    tenant: TenantId,
    buckets: &[GuessBucket],
    now: Timestamp,
) -> Result<Vec<GuessRecord>, StoreError> {
    let mut records = Vec::new();
    for bucket in buckets {
        let key = parameters![tenant, &bucket.0, now];
        records.extend(run_sync_future(connection.query(FIND_GUESSES, &key, decode_guess))?);
    }
    Ok(records)
}

fn insert_guesses(
    connection: &Connection,
    tenant: TenantId,
    records: &[GuessRecord],
) -> Result<(), StoreError> {
    for GuessRecord { bucket, number_digest, counted_at, expires_at } in records {
        let row = parameters![tenant, &bucket.0, number_digest, *counted_at, *expires_at];
        execute(connection, INSERT_GUESS, &row)?;
    }
    Ok(())
}

impl GuessStore for SqliteStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        self.read(move |it| find_guesses(it, tenant, buckets, now))
    }

    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| insert_guesses(it, tenant, &records)))
    }

    fn delete_expired_guesses(&self, cutoff: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_batch(LogKind::Audit, &DELETE_EXPIRED_GUESSES, cutoff))
    }
}
