//! The counts of the guessing budget and the search budget. Nodes add to them without waiting for the
//! tenant's turn: a count is kept by its number, and the later time wins.

use scrip_core::{
    audit::Log,
    id::TenantId,
    policy::guessing_budget::{Bucket, GuessRecord},
    store::{GuessStore, StoreFuture},
    time::Timestamp,
};

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            columns::Columns,
            statement::{PostgresClient, SqlValue},
        },
    },
    rules::usage::{SWEEP_GUESSES, guess},
    sql::parameters,
};

const FIND_GUESSES: &str = "
-- find_guesses
SELECT bucket, number, counted_at, expires_at FROM guesses
WHERE tenant = $1 AND bucket = ANY ($2) AND expires_at > $3";

const INSERT_GUESSES: &str = "
-- insert_guesses
INSERT INTO guesses (tenant, bucket, number, counted_at, expires_at)
    SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[])
ON CONFLICT (tenant, bucket, number) DO UPDATE SET
    counted_at = greatest(guesses.counted_at, excluded.counted_at),
    expires_at = greatest(guesses.expires_at, excluded.expires_at)";

impl GuessStore for PostgresStore {
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [Bucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>> {
        Box::pin(async move {
            let names: Vec<&[u8]> = buckets.iter().map(|it| it.0.as_slice()).collect();
            let client = self.of(tenant);
            let rows = client.rows(FIND_GUESSES, &[&tenant.0, &names, &now.unix_ms]).await?;
            rows.iter().map(|row| guess(row)).collect()
        })
    }

    /// In the order of their keys, so that two nodes that write the same ones do not wait for each
    /// other in a circle.
    fn insert_guesses(
        &self,
        tenant: TenantId,
        mut records: Vec<GuessRecord>,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            records.sort_unstable_by_key(|it| (it.bucket, it.number));
            let rows = Columns::of(
                records
                    .iter()
                    .map(|it| parameters![&it.bucket.0, &it.number, it.at, it.expires_at]),
            );
            let of: SqlValue<'_> = &tenant.0;
            let columns: Vec<_> = std::iter::once(of).chain(rows.raw()).collect();
            self.of(tenant).execute_raw(INSERT_GUESSES, &columns).await.map(drop)
        })
    }

    fn sweep_guesses(&self, expired: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_some(Log::Audit, &SWEEP_GUESSES, expired))
    }
}
