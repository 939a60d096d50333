//! What there is in the file, for the operator, and what is done in the background.

use std::{fs, path::Path};

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, NotedTime},
    measure::StoreMeasures,
    store::{Ending, Maintenance, StoreError, StoreFuture, StoreStatus},
    time::Timestamp,
};

use crate::{
    rules::{
        status::{find_number, list_counts, list_key_versions},
        time::{known_time, note_time},
    },
    sql::run_ready,
    sqlite::{
        SqliteStore,
        audit::access_log::path_of,
        engine::connection::schema_version,
        maintenance::sweep::{sweep, sweep_cvcs},
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
    counts.push(("audit_records", find_number(connection, COUNT_RECORDS).await?));
    let bytes = |extension| size(&path.with_extension(extension));
    Ok(StoreStatus {
        engine: "embedded",
        schema: u32::try_from(schema_version(connection)?).unwrap_or_default(),
        key_versions: list_key_versions(connection).await?,
        counts,
        sizes_bytes: vec![("database", bytes("db")), ("write_ahead_log", bytes("db-wal"))],
    })
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}

impl Maintenance for SqliteStore {
    fn sweep(
        &self,
        ending: Ending,
        ended: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep(it, ending, ended, &audit)))
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| sweep_cvcs(it, ended)))
    }

    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| run_ready(note_time(it, noted))))
    }

    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>> {
        Box::pin(async move { known_time(&&self.readers).await })
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        Box::pin(async move {
            let mut status = self.readers.read(|it| run_ready(find_status(it, &self.path)))?;
            let count = |it: &Connection| run_ready(find_number(it, COUNT_RECORDS));
            status.counts.push(("access_records", self.access.readers.read(count)?));
            let path = path_of(&self.path);
            status.sizes_bytes.push(("access_log", size(&path)));
            let log = size(&path.with_extension("db-wal"));
            status.sizes_bytes.push(("access_write_ahead_log", log));
            Ok(status)
        })
    }

    fn measures(&self) -> StoreMeasures {
        let access = self.access.writer.measures("access", &path_of(&self.path));
        let logs = vec![self.writer.measures("vault", &self.path), access];
        StoreMeasures { logs, readers: self.readers.measures() }
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if !self.writer.takes_work() || !self.access.takes_work() {
                return Err(StoreError::Busy);
            }
            self.readers.read(|it| run_ready(find_number(it, "-- ready\nSELECT 1"))).map(drop)
        })
    }
}
