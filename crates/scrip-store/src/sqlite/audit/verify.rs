//! Verifies a log by reading all of it in one snapshot while other transactions write.

use std::{fs, path::Path};

use scrip_core::{
    audit::{
        LogKind,
        verify::{ChainAnchors, Verifier},
    },
    types::StoreError,
};

use crate::{
    shared::log::{SQLITE_LOG, VerificationStart, begin_verification, verify_row},
    sql::run_sync_future,
    sqlite::{
        audit::read_log::read_log_path,
        engine::{
            connection::{PageMode, open_reader},
            statement::store_error,
        },
    },
};

/// Number of records between two progress reports.
const PROGRESS_INTERVAL: u64 = 4096;

/// Passes every record of a log to the verifier that `create_verifier` creates from the heads and
/// checkpoints of the log.
///
/// `report_progress` receives the number of verified records and the expected total.
///
/// The WAL cannot restart during this read. Verification stops if the WAL exceeds a limit, because
/// a full disk is worse than a later verification.
/// Errors: the database cannot be read, or its WAL grew too long.
pub fn verify_log(
    vault: &Path,
    log: LogKind,
    wal_bytes_max: u64,
    create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
    mut report_progress: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let path = match log {
        LogKind::Audit => vault.to_owned(),
        LogKind::Read => read_log_path(vault),
    };
    let connection = open_reader(&path, PageMode::Mapped)?;
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    let start = begin_verification(&*transaction, &SQLITE_LOG, create_verifier);
    let VerificationStart { mut verifier, expected_records } = run_sync_future(start)?;
    let mut statement = transaction.prepare(&SQLITE_LOG.list_all_records).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut verified_records = 0_u64;
    check_wal_length(&path, wal_bytes_max)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        verify_row(&mut verifier, row);
        verified_records = verified_records.saturating_add(1);
        if verified_records.is_multiple_of(PROGRESS_INTERVAL) {
            check_wal_length(&path, wal_bytes_max)?;
            report_progress(verified_records, expected_records);
        }
    }
    report_progress(verified_records, expected_records);
    Ok(verifier)
}

fn check_wal_length(path: &Path, wal_bytes_max: u64) -> Result<(), StoreError> {
    let length = fs::metadata(path.with_extension("db-wal")).map_or(0, |it| it.len());
    if length > wal_bytes_max {
        return Err(StoreError::Unavailable(
            "the WAL exceeded its size limit because of concurrent writes; raise the limit, or \
             try again when there is less load"
                .into(),
        ));
    }
    Ok(())
}
