//! What there is in the database, for the operator, and what is done in the background.

use scrip_core::{
    audit::{AuditRecord, NotedTime},
    measure::{ReaderMeasures, StoreMeasures},
    store::{Ending, Maintenance, StoreError, StoreFuture, StoreStatus},
    time::Timestamp,
};

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            fault::unavailable,
            pool::Pool,
            scope::Scope,
            statement::{Single, not_after},
        },
        maintenance::sweep::{sweep, sweep_cvcs},
    },
    rules::{
        status::{find_number, list_counts, list_key_versions},
        time::{known_time, note_time},
    },
    sql::{Statements, required},
};

/// Without going through them: numbers have no gaps. A number that somebody made too large to add is
/// no error.
macro_rules! count_records {
    ($log:literal) => {
        concat!(
            "-- count_records
    SELECT least(greatest(coalesce(sum(it.n::numeric - coalesce(pruned.n, 0)), 0), 0),
    9223372036854775807)::bigint
FROM heads AS it LEFT JOIN checkpoints AS pruned USING (tenant, log) WHERE log = '",
            $log,
            "'"
        )
    };
}

const SCHEMA: &str = "-- schema\nSELECT version FROM schema_state WHERE one = 1";

const SIZE: &str = "-- size\nSELECT pg_database_size(current_database())";

async fn find_status(client: &impl Statements) -> Result<StoreStatus, StoreError> {
    let mut counts = list_counts(client).await?;
    counts.push(("audit_records", find_number(client, count_records!("audit")).await?));
    counts.push(("access_records", find_number(client, count_records!("access")).await?));
    let key_versions = list_key_versions(client).await?;
    let schema = find_number(client, SCHEMA).await?;
    Ok(StoreStatus {
        engine: "PostgreSQL",
        schema: u32::try_from(schema).unwrap_or_default(),
        key_versions,
        counts,
        sizes_bytes: vec![("database", find_number(client, SIZE).await?)],
    })
}

const READY: &str = "
-- check_ready
SELECT current_setting('transaction_read_only') FROM directory_state WHERE one = 1";

/// A standby answers, and takes no writes.
async fn check_ready(client: &impl Statements) -> Result<(), StoreError> {
    let is_read_only: Option<String> = client.find(READY, &[], |row| required(row, 0)).await?;
    match is_read_only.as_deref() {
        Some("off") => Ok(()),
        Some(_) | None => Err(unavailable("PostgreSQL takes no writes")),
    }
}

/// Connections are counted as those of readers, for every one of them may read.
fn connections(pool: &Pool) -> ReaderMeasures {
    let status = pool.status();
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    ReaderMeasures {
        busy: number(status.size.saturating_sub(status.available)),
        idle: number(status.available),
        opened: number(status.size),
    }
}

impl Maintenance for PostgresStore {
    fn sweep(
        &self,
        ending: Ending,
        ended: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep(&self.pool, ending, ended, &audit).await })
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { sweep_cvcs(&self.of_every_tenant(), ended).await })
    }

    fn not_after(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(async move { not_after(&self.of_no_tenant(), self.pool.clock, at).await })
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        Box::pin(async move { note_time(&self.of_no_tenant(), noted).await })
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        Box::pin(async move { known_time(&self.of_no_tenant()).await })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { check_ready(&self.of_no_tenant()).await })
    }

    fn measures(&self) -> StoreMeasures {
        let logs = vec![self.writes.measures(), self.access.measures()];
        StoreMeasures { logs, readers: connections(&self.pool) }
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move { find_status(&Single::long(&self.pool, Scope::every_tenant())).await })
    }
}
