//! A log read through, as it is at one instant, while others write: for verifying it.

use std::{fs, path::Path};

use scrip_core::{
    audit::{
        Log,
        verify::{Ends, Verifier},
    },
    store::StoreError,
};

use crate::{
    rules::audit::log::{SQLITE_LOG, WalkBeginning, begin_walk, verify_row},
    sql::run_ready,
    sqlite::{
        audit::access_log::path_of,
        engine::{
            connection::{Pages, open_reader},
            statement::fault,
        },
    },
};

const TELL_EVERY: u64 = 4096;

/// Hands every record to the verifier that `begin` makes of the log's heads and checkpoints.
/// `watch` hears how many there were so far, and how many there should be.
///
/// The log of the database cannot start over while this reads, so it gives up when that is longer
/// than a bound: a full disk is worse than a trail that is verified later.
///
/// # Errors
/// The database cannot be read, or its log has grown too long.
pub fn walk_log(
    vault: &Path,
    log: Log,
    log_bytes_max: u64,
    begin: impl FnOnce(Ends) -> Verifier,
    mut watch: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let path = match log {
        Log::Audit => vault.to_owned(),
        Log::Access => path_of(vault),
    };
    let connection = open_reader(&path, Pages::Mapped)?;
    let transaction = connection.unchecked_transaction().map_err(fault)?;
    let begun = begin_walk(&*transaction, &SQLITE_LOG, begin);
    let WalkBeginning { mut verifier, records: all } = run_ready(begun)?;
    let mut statement = transaction.prepare(SQLITE_LOG.list_all_records).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut done = 0_u64;
    check_length(&path, log_bytes_max)?;
    while let Some(row) = rows.next().map_err(fault)? {
        verify_row(&mut verifier, row);
        done = done.saturating_add(1);
        if done.is_multiple_of(TELL_EVERY) {
            check_length(&path, log_bytes_max)?;
            watch(done, all);
        }
    }
    watch(done, all);
    Ok(verifier)
}

fn check_length(path: &Path, log_bytes_max: u64) -> Result<(), StoreError> {
    let length = fs::metadata(path.with_extension("db-wal")).map_or(0, |it| it.len());
    if length > log_bytes_max {
        return Err(StoreError::Unavailable(
            "the log of the database has grown past the bound, because so much was written \
             meanwhile; allow a longer one, or try when there is less to do"
                .into(),
        ));
    }
    Ok(())
}
