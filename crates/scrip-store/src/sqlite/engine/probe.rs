//! The probe write of a log after a failed commit. It brings the vault back without a client.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use scrip_core::{audit::LogKind, store::StoreCondition, types::StoreError};

use crate::{
    health::{StoreHealth, describe},
    sqlite::engine::{
        statement::{SqliteFailure, store_error},
        transaction::SqliteTransaction,
    },
};

/// The health of the storage, for the writer of one log.
#[derive(Debug, Clone)]
pub(crate) struct LogHealth {
    pub(crate) health: Arc<StoreHealth>,
    pub(crate) log: LogKind,
}

impl LogHealth {
    pub(crate) fn is_up(&self) -> bool {
        self.health.log_condition(self.log) == StoreCondition::Up
    }

    pub(crate) fn report_recovery(&self) {
        self.health.report_recovery(self.log);
    }

    /// Reports the failure of one task, if the storage is the reason.
    pub(crate) fn report_failed_task(&self, failure: Option<SqliteFailure>) {
        let condition = failure.and_then(SqliteFailure::condition);
        if let Some((failure, condition)) = failure.zip(condition) {
            self.health.report_failure(self.log, condition, &failure);
        }
    }

    /// Reports that a transaction did not begin or was not committed.
    pub(crate) fn report_failed_commit(&self, error: &StoreError) {
        let condition = SqliteFailure::find(error).and_then(SqliteFailure::condition);
        let condition = condition.unwrap_or(StoreCondition::CommitFailed);
        self.health.report_failure(self.log, condition, &describe(error));
    }
}

/// The space that must be free before the disk counts as recovered. Without this reserve a commit
/// of one page could succeed on a disk that is still full.
const RESERVE_BYTES: usize = 1024 * 1024;

/// Reserves space next to the database, and rewrites a page.
pub(crate) fn write_probe(
    transaction: &SqliteTransaction<'_>,
    path: &Path,
) -> Result<(), StoreError> {
    reserve_space(path)?;
    rewrite_header(transaction)
}

fn reserve_space(path: &Path) -> Result<(), StoreError> {
    let result = write_file(path);
    drop(fs::remove_file(path));
    result.map_err(|error| StoreError::Unavailable(error.into()))
}

fn write_file(path: &Path) -> io::Result<()> {
    // A new file: a symbolic link with this name is not followed.
    drop(fs::remove_file(path));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&vec![0x5a; RESERVE_BYTES])?;
    file.sync_data()
}

/// Writes the first page of the database without changing its content.
fn rewrite_header(transaction: &SqliteTransaction<'_>) -> Result<(), StoreError> {
    let version: i64 =
        transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    transaction.execute_batch(&format!("PRAGMA user_version = {version}")).map_err(store_error)
}
