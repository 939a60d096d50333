//! A log read through, as it is at one instant, while others write: for verifying it.

use std::{fs, path::Path};

use rusqlite::{Connection, Row};
use scrip_core::{
    audit::{
        chain::Log,
        verify::{Ends, Verifier},
    },
    id::TenantId,
    store::StoreError,
};

use crate::sqlite::{
    Pages,
    access::path_of,
    audit::{LIST_ALL_RECORDS, LIST_CHECKPOINTS, checkpoint, log_row},
    chains::{LIST_HEADS, head},
    connection::open_reader,
    fault,
    row::uuid,
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
    (vault, log): (&Path, Log),
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
    let (heads, bad_heads) = readable(&transaction, LIST_HEADS, head)?;
    let (checkpoints, bad_checkpoints) = readable(&transaction, LIST_CHECKPOINTS, checkpoint)?;
    let pruned: i64 = checkpoints.iter().fold(0, |sum, it| sum.saturating_add(it.n));
    let all = heads.iter().fold(0_i64, |sum, it| sum.saturating_add(it.n));
    let all = u64::try_from(all.saturating_sub(pruned)).unwrap_or_default();
    let mut verifier = begin(Ends { heads, checkpoints });
    for tenant in bad_heads.into_iter().chain(bad_checkpoints) {
        verifier.unreadable(tenant);
    }
    let mut statement = transaction.prepare(LIST_ALL_RECORDS).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let mut done = 0_u64;
    check_length(&path, log_bytes_max)?;
    while let Some(row) = rows.next().map_err(fault)? {
        match log_row(row) {
            Ok(row) => verifier.take(&row),
            Err(_) => verifier.unreadable(tenant(row)),
        }
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

/// What can be read, and whose it is that cannot.
type Readable<T> = (Vec<T>, Vec<Option<TenantId>>);

fn readable<T>(
    connection: &Connection,
    sql: &str,
    parse: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Readable<T>, StoreError> {
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let mut rows = statement.query([]).map_err(fault)?;
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(fault)? {
        match parse(row) {
            Ok(it) => found.push(it),
            Err(_) => unreadable.push(tenant(row)),
        }
    }
    Ok((found, unreadable))
}

fn tenant(row: &Row<'_>) -> Option<TenantId> {
    row.get(0).ok().map(|it| TenantId(uuid(it)))
}
