//! What there is in the file, for the operator, and what is done in the background.

use std::{fs, path::Path};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, SignedWatermark},
    metrics::StoreMetrics,
    store::{ExpiringEntity, Maintenance, StoreError, StoreFuture, StoreStatus},
    time::Timestamp,
};

use crate::{
    shared::{
        clock_watermark::{load_watermark, save_watermark},
        status::{list_counts, list_key_versions, query_number},
    },
    sql::run_ready,
    sqlite::{
        SqliteStore,
        audit::read_log::read_log_path,
        engine::connection::schema_version,
        maintenance::expiry::{delete_expired_rows, erase_expired_cvcs},
    },
};

/// Without going through them: numbers have no gaps. A number that somebody made too large to add
/// is no error.
const COUNT_RECORDS: &str = "
-- count_records
SELECT CAST(total(it.n - coalesce(pruned.n, 0)) AS INTEGER)
FROM audit_heads AS it LEFT JOIN audit_checkpoints AS pruned ON pruned.tenant = it.tenant";

async fn find_status(connection: &Connection, path: &Path) -> Result<StoreStatus, StoreError> {
    let mut counts = list_counts(connection).await?;
    counts.push(("audit_records", query_number(connection, COUNT_RECORDS).await?));
    let bytes = |extension| file_size(&path.with_extension(extension));
    Ok(StoreStatus {
        engine: "embedded",
        schema: u32::try_from(schema_version(connection)?).unwrap_or_default(),
        key_versions: list_key_versions(connection).await?,
        counts,
        sizes_bytes: vec![("database", bytes("db")), ("write_ahead_log", bytes("db-wal"))],
    })
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}

impl Maintenance for SqliteStore {
    fn delete_expired(
        &self,
        ending: ExpiringEntity,
        expired_by: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| delete_expired_rows(it, ending, expired_by, &audit)))
    }

    fn erase_expired_cvcs(&self, expired_by: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| erase_expired_cvcs(it, expired_by)))
    }

    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| run_ready(save_watermark(it, watermark))))
    }

    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>> {
        Box::pin(async move { load_watermark(&&self.readers).await })
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move {
            let mut status = self.readers.read(|it| run_ready(find_status(it, &self.path)))?;
            let count = |it: &Connection| run_ready(query_number(it, COUNT_RECORDS));
            status.counts.push(("access_records", self.read_log.readers.read(count)?));
            let path = read_log_path(&self.path);
            status.sizes_bytes.push(("access_log", file_size(&path)));
            let log = file_size(&path.with_extension("db-wal"));
            status.sizes_bytes.push(("access_write_ahead_log", log));
            Ok(status)
        })
    }

    fn metrics(&self) -> StoreMetrics {
        let access = self.read_log.writer.metrics("access", &read_log_path(&self.path));
        let logs = vec![self.writer.metrics("vault", &self.path), access];
        StoreMetrics { writers: logs, readers: self.readers.metrics() }
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if !self.writer.accepts_work() || !self.read_log.accepts_work() {
                return Err(StoreError::Busy);
            }
            self.readers.read(|it| run_ready(query_number(it, "-- ready\nSELECT 1"))).map(drop)
        })
    }
}
