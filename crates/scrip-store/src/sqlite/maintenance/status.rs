//! Row counts for the operator and metrics of background work.

use std::{fs, path::Path};

use rusqlite::Connection;
use scrip_core::{
    Timestamp,
    audit::{AuditRecord, SignedWatermark},
    events::ExpiryEvents,
    store::{ExpiringEntity, Maintenance, StoreCondition, StoreStatus},
    types::{StoreError, StoreFuture, metrics::StoreMetrics},
};

use crate::{
    shared::{
        clock_watermark::{load_watermark, save_watermark},
        status::{list_counts, list_key_versions, query_number},
    },
    sql::run_sync_future,
    sqlite::{
        SqliteStore,
        audit::read_log::read_log_path,
        engine::connection::schema_version,
        maintenance::expiry::{delete_expired_rows, erase_expired_cvcs},
    },
};

/// Counts the records of a log without a scan: sequence numbers have no gaps, so their differences
/// are the counts. A value that was altered to overflow the sum is not an error.
const COUNT_RECORDS: &str = "
-- count_records
SELECT CAST(total(it.sequence - coalesce(pruned.sequence, 0)) AS INTEGER)
FROM chain_heads AS it LEFT JOIN chain_checkpoints AS pruned ON pruned.tenant = it.tenant";

async fn find_status(connection: &Connection, path: &Path) -> Result<StoreStatus, StoreError> {
    let mut counts = list_counts(connection).await?;
    counts.push(("audit_records", query_number(connection, COUNT_RECORDS, &[]).await?));
    let size_of_file = |extension| file_size(&path.with_extension(extension));
    Ok(StoreStatus {
        engine: "embedded",
        schema: u32::try_from(schema_version(connection)?).unwrap_or_default(),
        key_versions: list_key_versions(connection).await?,
        counts,
        sizes_bytes: vec![
            ("database", size_of_file("db")),
            ("write_ahead_log", size_of_file("db-wal")),
        ],
    })
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}

impl Maintenance for SqliteStore {
    fn delete_expired(
        &self,
        entity: ExpiringEntity,
        cutoff: Timestamp,
        audit: AuditRecord,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        Box::pin(
            self.writer.write(move |it| delete_expired_rows(it, entity, cutoff, &audit, &events)),
        )
    }

    fn erase_expired_cvcs(
        &self,
        cutoff: Timestamp,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| erase_expired_cvcs(it, cutoff, &events)))
    }

    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| run_sync_future(save_watermark(it, watermark))))
    }

    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>> {
        Box::pin(async move { load_watermark(&&self.readers).await })
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move {
            let mut status =
                self.readers.read(|it| run_sync_future(find_status(it, &self.path)))?;
            let count_records =
                |it: &Connection| run_sync_future(query_number(it, COUNT_RECORDS, &[]));
            status.counts.push(("read_log_records", self.read_log.readers.read(count_records)?));
            let path = read_log_path(&self.path);
            status.sizes_bytes.push(("read_log", file_size(&path)));
            let wal_size = file_size(&path.with_extension("db-wal"));
            status.sizes_bytes.push(("read_log_wal", wal_size));
            Ok(status)
        })
    }

    fn metrics(&self) -> StoreMetrics {
        let read_log = self.read_log.writer.metrics("read", &read_log_path(&self.path));
        let writers = vec![self.writer.metrics("vault", &self.path), read_log];
        StoreMetrics { writers, readers: self.readers.metrics() }
    }

    fn condition(&self) -> StoreCondition {
        self.health.condition()
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.writer.probe_after_failure(&self.path).await?;
            self.read_log.writer.probe_after_failure(&read_log_path(&self.path)).await
        })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if !self.writer.accepts_work() || !self.read_log.accepts_work() {
                return Err(StoreError::Busy);
            }
            self.readers
                .read(|it| run_sync_future(query_number(it, "-- ready\nSELECT 1", &[])))
                .map(drop)
        })
    }
}
