//! A log read through, as it is at one instant, while others write: for verifying it.

use std::{fs, path::Path};

use scrip_core::{
    audit::{
        LogKind,
        verify::{ChainAnchors, Verifier},
    },
    store::StoreError,
};

use crate::{
    shared::audit::log::{SQLITE_LOG, VerificationStart, begin_verification, verify_row},
    sql::run_ready,
    sqlite::{
        audit::read_log::read_log_path,
        engine::{
            connection::{PageMode, open_reader},
            statement::store_error,
        },
    },
};

const PROGRESS_EVERY: u64 = 4096;

/// Hands every record to the verifier that `begin` makes of the log's heads and checkpoints.
/// `watch` hears how many there were so far, and how many there should be.
///
/// The log of the database cannot start over while this reads, so it gives up when that is longer
/// than a bound: a full disk is worse than a trail that is verified later.
///
/// # Errors
/// The database cannot be read, or its log has grown too long.
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
    let begun = begin_verification(&*transaction, &SQLITE_LOG, create_verifier);
    let VerificationStart { mut verifier, expected_records: all } = run_ready(begun)?;
    let mut statement = transaction.prepare(SQLITE_LOG.list_all_records).map_err(store_error)?;
    let mut rows = statement.query([]).map_err(store_error)?;
    let mut done = 0_u64;
    check_wal_length(&path, wal_bytes_max)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        verify_row(&mut verifier, row);
        done = done.saturating_add(1);
        if done.is_multiple_of(PROGRESS_EVERY) {
            check_wal_length(&path, wal_bytes_max)?;
            report_progress(done, all);
        }
    }
    report_progress(done, all);
    Ok(verifier)
}

fn check_wal_length(path: &Path, wal_bytes_max: u64) -> Result<(), StoreError> {
    let length = fs::metadata(path.with_extension("db-wal")).map_or(0, |it| it.len());
    if length > wal_bytes_max {
        return Err(StoreError::Unavailable(
            "the log of the database has grown past the bound, because so much was written \
             meanwhile; allow a longer one, or try when there is less to do"
                .into(),
        ));
    }
    Ok(())
}
