//! Counters of the guessing budget and the search budget. Nodes update them without the tenant's
//! lock: a count is stored under its number, and the later time wins.

use scrip_core::{
    Timestamp,
    audit::LogKind,
    equality::{GuessBucket, GuessRecord, GuessStore},
    types::{StoreFuture, id::TenantId},
};

use crate::{
    postgres::{
        PostgresStore,
        engine::statement::{PostgresClient, RowStatement},
    },
    shared::usage::{DELETE_EXPIRED_GUESSES, decode_guess},
    sql::parameters,
};

const FIND_GUESSES: &str = "
-- find_guesses
SELECT bucket, number_digest, counted_at, expires_at FROM guesses
WHERE tenant = $1 AND bucket = ANY ($2) AND expires_at > $3";

const INSERT_GUESSES: &str = "
-- insert_guesses
INSERT INTO guesses (tenant, bucket, number_digest, counted_at, expires_at)
    SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[])
ON CONFLICT (tenant, bucket, number_digest) DO UPDATE SET
    counted_at = greatest(guesses.counted_at, excluded.counted_at),
    expires_at = greatest(guesses.expires_at, excluded.expires_at)";

impl GuessStore for PostgresStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [GuessBucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        Box::pin(async move {
            let names: Vec<&[u8]> = buckets.iter().map(|it| it.0.as_slice()).collect();
            let client = self.for_tenant(tenant);
            let rows = client.rows(FIND_GUESSES, &[&tenant.0, &names, &now.unix_ms]).await?;
            rows.iter().map(|row| decode_guess(row)).collect()
        })
    }

    /// Sorted by key, so that two nodes that write the same rows cannot deadlock.
    fn insert_guesses(
        &self,
        tenant: TenantId,
        mut records: Vec<GuessRecord>,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            records.sort_unstable_by_key(|it| (it.bucket, it.number_digest));
            let rows = records.iter().map(|it| {
                parameters![&it.bucket.0, &it.number_digest, it.counted_at, it.expires_at]
            });
            let insert = RowStatement::new(INSERT_GUESSES, parameters![tenant]).columns(rows);
            let values = insert.driver_parameters();
            self.for_tenant(tenant).execute_raw(INSERT_GUESSES, &values).await.map(drop)
        })
    }

    fn delete_expired_guesses(&self, cutoff: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_batch(LogKind::Audit, &DELETE_EXPIRED_GUESSES, cutoff))
    }
}
