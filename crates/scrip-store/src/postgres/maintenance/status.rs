//! Row counts for the operator and metrics of background work.

use std::time::Duration;

use scrip_core::{
    Timestamp,
    audit::{AuditRecord, LogKind, SignedWatermark},
    events::ExpiryEvents,
    store::{ExpiringEntity, Maintenance, StoreCondition, StoreStatus},
    types::{
        StoreError, StoreFuture,
        metrics::{ReaderPoolMetrics, StoreMetrics},
    },
};

use tokio::time::timeout;

use crate::{
    health::describe,
    postgres::{
        PostgresStore,
        engine::{
            error::unavailable,
            pool::ConnectionPool,
            scope::RowScope,
            statement::{AutocommitClient, cap_at_database_clock},
        },
        maintenance::expiry::{delete_expired_rows, erase_expired_cvcs},
    },
    shared::{
        clock_watermark::{load_watermark, save_watermark},
        status::{list_counts, list_key_versions, query_number},
    },
    sql::{Execute, Statements, parameters, read_required},
};

/// Counts the records of a log without a scan: sequence numbers have no gaps, so their differences
/// are the counts. A value that was altered to overflow the sum is not an error.
const COUNT_RECORDS: &str = "
-- count_records
SELECT least(greatest(coalesce(sum(it.sequence::numeric - coalesce(pruned.sequence, 0)), 0), 0),
    9223372036854775807)::bigint
FROM chain_heads AS it LEFT JOIN chain_checkpoints AS pruned USING (tenant, log) WHERE log = $1";

const FIND_SCHEMA_VERSION: &str = "-- schema\nSELECT version FROM schema_state WHERE singleton = 1";

const FIND_DATABASE_SIZE: &str = "-- size\nSELECT pg_database_size(current_database())";

async fn find_status(client: &impl Statements) -> Result<StoreStatus, StoreError> {
    let mut counts = list_counts(client).await?;
    counts
        .push(("audit_records", query_number(client, COUNT_RECORDS, &parameters!["audit"]).await?));
    counts.push((
        "read_log_records",
        query_number(client, COUNT_RECORDS, &parameters!["read"]).await?,
    ));
    let key_versions = list_key_versions(client).await?;
    let schema = query_number(client, FIND_SCHEMA_VERSION, &[]).await?;
    Ok(StoreStatus {
        engine: "PostgreSQL",
        schema: u32::try_from(schema).unwrap_or_default(),
        key_versions,
        counts,
        sizes_bytes: vec![("database", query_number(client, FIND_DATABASE_SIZE, &[]).await?)],
    })
}

const CHECK_READY: &str = "
-- check_ready
SELECT current_setting('transaction_read_only') FROM directory_state WHERE singleton = 1";

/// A standby responds to reads, but is not ready for writes.
async fn check_ready(client: &impl Statements) -> Result<(), StoreError> {
    let is_read_only: Option<String> =
        client.find(CHECK_READY, &[], |row| read_required(row, 0)).await?;
    match is_read_only.as_deref() {
        Some("off") => Ok(()),
        Some(_) | None => Err(unavailable("PostgreSQL is read-only")),
    }
}

/// Longer than a loaded server takes, and as long as a readiness check.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

const PROBE_WRITE: &str = "
-- probe_write
UPDATE directory_state SET version = version WHERE singleton = 1";

/// The space that must be free before the disk counts as recovered. Without this reserve, a commit
/// into free space of existing files could succeed on a disk that is still full.
const RESERVE_BYTES: u64 = 1024 * 1024;

/// Writes to a table without tenants that the serving role may update.
const RESERVE_SPACE: &str = "
-- reserve_space
INSERT INTO clock_watermark (singleton, now, earliest, mac) VALUES (1, 0, 0, $1)
ON CONFLICT (singleton) DO UPDATE SET mac = $1";

/// Makes PostgreSQL extend a file, and rolls back. Vacuum returns the space later.
async fn reserve_space(pool: &ConnectionPool) -> Result<(), StoreError> {
    let filler = incompressible_filler();
    let mut connection = pool.acquire().await?;
    connection.batch(&RowScope::no_tenant().begin_write()).await?;
    let written = connection.execute_raw(RESERVE_SPACE, &[&filler]).await;
    connection.batch("ROLLBACK").await?;
    connection.release();
    written.map(drop)
}

/// Returns bytes that PostgreSQL cannot compress, because compressed bytes would reserve less.
fn incompressible_filler() -> Vec<u8> {
    let words = 0..RESERVE_BYTES / 8;
    let mixed = words.map(|it| {
        let word = it.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ (word >> 27)
    });
    mixed.flat_map(u64::to_le_bytes).collect()
}

/// Compares the server with the recorded condition. Uses a reserved connection, so that load does
/// not look like an outage. Writes only if a commit has failed.
async fn probe(pool: &ConnectionPool) -> Result<(), StoreError> {
    let reserved_pool = pool.reserved();
    let client = AutocommitClient::new(&reserved_pool, RowScope::no_tenant());
    let check = async {
        match check_ready(&client).await {
            // A connection that the server has closed fails once. The pool opens another one.
            Err(StoreError::Unavailable(_)) => check_ready(&client).await,
            result => result,
        }
    };
    let health = &pool.health;
    match timeout(PROBE_TIMEOUT, check).await {
        Ok(Ok(())) => (),
        // No connection is free: that says nothing about the server.
        Ok(Err(StoreError::Busy)) => return Ok(()),
        Ok(Err(error)) => {
            health.report_failure(LogKind::Audit, StoreCondition::Unreachable, &describe(&error));
            return Err(error);
        }
        Err(_) => {
            let cause = "PostgreSQL did not respond in time";
            health.report_failure(LogKind::Audit, StoreCondition::Unreachable, &cause);
            return Err(unavailable(cause));
        }
    }
    match health.condition() {
        StoreCondition::Up => return Ok(()),
        StoreCondition::CommitFailed => drop(client.execute(PROBE_WRITE, &[]).await?),
        StoreCondition::DiskFull => {
            reserve_space(&reserved_pool).await?;
            client.execute(PROBE_WRITE, &[]).await?;
        }
        StoreCondition::Unreachable => (),
    }
    health.report_recovery(LogKind::Audit);
    Ok(())
}

/// All pooled connections are reported as readers, because each of them may read.
fn connection_metrics(pool: &ConnectionPool) -> ReaderPoolMetrics {
    let status = pool.status();
    let to_u64 = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    ReaderPoolMetrics {
        busy: to_u64(status.size.saturating_sub(status.available)),
        idle: to_u64(status.available),
        opened: to_u64(status.size),
    }
}

impl Maintenance for PostgresStore {
    fn delete_expired(
        &self,
        entity: ExpiringEntity,
        cutoff: Timestamp,
        audit: AuditRecord,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        Box::pin(
            async move { delete_expired_rows(&self.pool, entity, cutoff, &audit, &events).await },
        )
    }

    fn erase_expired_cvcs(
        &self,
        cutoff: Timestamp,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        Box::pin(async move { erase_expired_cvcs(&self.pool, cutoff, &events).await })
    }

    fn cap_at_shared_clock(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(
            async move { cap_at_database_clock(&self.without_tenant(), self.pool.clock, at).await },
        )
    }

    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()> {
        Box::pin(async move { save_watermark(&self.without_tenant(), watermark).await })
    }

    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>> {
        Box::pin(async move { load_watermark(&self.without_tenant()).await })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move { check_ready(&self.without_tenant()).await })
    }

    fn condition(&self) -> StoreCondition {
        self.pool.health.condition()
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(probe(&self.pool))
    }

    fn metrics(&self) -> StoreMetrics {
        let writers = vec![self.write_queue.metrics(), self.read_log.metrics()];
        StoreMetrics { writers, readers: connection_metrics(&self.pool) }
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move {
            find_status(&AutocommitClient::with_long_timeout(&self.pool, RowScope::all_tenants()))
                .await
        })
    }
}
