//! A copy of the database as it is at one instant, made while others write, and a look at one.
//!
//! Table by table, inside one read transaction, into a new file. So there is nothing in the copy
//! that is not a row: no page that was freed, no rest of what was deleted; and what does not
//! belong into a copy is never written to it.

use std::{
    fs::{self, File},
    path::{Path, absolute},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use scrip_core::{policy::DirectoryRecords, store::StoreError};

use crate::{
    shared::policy::directory::find_system_keys,
    sql::run_ready,
    sqlite::{
        audit::read_log::read_log_path,
        engine::{
            connection::{self, BUSY_TIMEOUT, DatabaseKind, is_current, migrate, schema_version},
            statement::store_error,
        },
        policy::directory::load_directory,
    },
};

/// Tables that come out empty. Card verification codes are sealed under keys that live in memory
/// for little more than an hour: in a backup they would only lie around.
pub const EXCLUDED_TABLES: [&str; 2] = ["cvcs", "intent_cvcs"];

/// The access log is another database; in a copy its tables stand beside the others, under names of
/// their own, each first as it is there.
pub const READ_LOG_TABLES: [(&str, &str); 5] = [
    ("audit", "access_records"),
    ("audit_heads", "access_heads"),
    ("audit_checkpoints", "access_checkpoints"),
    ("active_tokens", "active_tokens"),
    ("active_months", "active_months"),
];

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    pub done_bytes: u64,
    /// About: a copy has no free pages, and fuller ones.
    pub total_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyResult {
    pub schema: u32,
    /// How many each table has.
    pub rows: Vec<(String, u64)>,
}

/// Instructions of the engine between two looks at how far it is: about a millisecond.
const PROGRESS_INSTRUCTIONS: i32 = 10_000;

/// Copies a vault, which others may have open, into an empty file. The copy is not synced.
///
/// The access log is read after the database, so that it has whoever saw what the copy has.
///
/// The log cannot start over while this reads, so it gives up when the log is longer than a bound:
/// a full disk is worse than no backup.
///
/// # Errors
/// Either file cannot be used, the database is not one of ours or newer than this program, or the
/// log has grown too long.
pub fn copy_database(
    from: &Path,
    to: &Path,
    wal_bytes_max: u64,
    report_progress: impl FnMut(BackupProgress) + Send + 'static,
) -> Result<CopyResult, StoreError> {
    let mut connection = open_copy(from, to)?;
    let watch = Arc::new(Mutex::new(ProgressWatch {
        total_bytes: 0,
        report: report_progress,
        is_wal_too_long: false,
    }));
    let look = {
        let logs = [from, &read_log_path(from)].map(|it| it.with_extension("db-wal"));
        let (to, watch) = (to.to_owned(), Arc::clone(&watch));
        move || {
            let mut watch = lock_watch(&watch);
            watch.report_bytes(file_size(&to));
            watch.is_wal_too_long = logs.iter().any(|it| file_size(it) > wal_bytes_max);
            watch.is_wal_too_long
        }
    };
    connection.progress_handler(PROGRESS_INSTRUCTIONS, Some(look)).map_err(store_error)?;
    let beside = file_size(&read_log_path(from));
    let copied = copy_tables(&connection, |all_bytes| {
        let mut watch = lock_watch(&watch);
        watch.total_bytes = all_bytes.saturating_add(beside);
        watch.report_bytes(0);
    });
    let copied = copied.and_then(|copied| copy_read_log(&connection, from, copied));
    if lock_watch(&watch).is_wal_too_long {
        return Err(StoreError::Unavailable(
            "the log of the database has grown past the bound, because so much was written \
             meanwhile; allow a longer one, or try when there is less to do"
                .into(),
        ));
    }
    connection.progress_handler(0, None::<fn() -> bool>).map_err(store_error)?;
    connection.close().map_err(|(_, error)| store_error(error))?;
    copied
}

/// What looks at a copy from within the engine, and from without.
struct ProgressWatch<F> {
    total_bytes: u64,
    report: F,
    is_wal_too_long: bool,
}

impl<F: FnMut(BackupProgress)> ProgressWatch<F> {
    fn report_bytes(&mut self, done_bytes: u64) {
        (self.report)(BackupProgress { done_bytes, total_bytes: self.total_bytes });
    }
}

fn lock_watch<T>(watch: &Mutex<T>) -> MutexGuard<'_, T> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}

/// The copy is `main`, so that statements which make tables are run as they were written. It has
/// no journal and is not synced: until it is whole and has its name, it is nobody's database.
const COPY_PRAGMAS: &str = "
    PRAGMA page_size = 4096;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

fn open_copy(from: &Path, to: &Path) -> Result<Connection, StoreError> {
    // Neither is ever created here.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(to, flags).map_err(store_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    connection.execute_batch(COPY_PRAGMAS).map_err(store_error)?;
    attach(&connection, from, "vault")?;
    Ok(connection)
}

fn attach(connection: &Connection, path: &Path, name: &'static str) -> Result<(), StoreError> {
    let path = absolute(path).map_err(|error| StoreError::Unavailable(error.into()))?;
    let path = path.to_str().ok_or(StoreError::Corrupt("its path is no text"))?;
    connection.execute(&format!("ATTACH ?1 AS {name}"), [path]).map(drop).map_err(store_error)
}

/// One transaction: what is read is of one instant, whatever others commit meanwhile.
/// `begun` hears how much there is once that instant is chosen.
fn copy_tables(
    connection: &Connection,
    report_size: impl FnOnce(u64),
) -> Result<CopyResult, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    let number = |name: &str| -> Result<i64, StoreError> {
        let sql = format!("PRAGMA vault.{name}");
        transaction.query_row(&sql, [], |row| row.get(0)).map_err(store_error)
    };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    let bytes = pages.saturating_mul(number("page_size")?);
    report_size(bytes.unsigned_abs());

    let (tables, later): (Vec<_>, Vec<_>) = list_schema(&transaction)?
        .into_iter()
        .partition(|it| matches!(&*it.kind, "table" | "index"));
    for made in &tables {
        transaction.execute_batch(&made.sql).map_err(store_error)?;
    }
    let (version, application) = (number("user_version")?, number("application_id")?);
    let marks = format!("PRAGMA user_version = {version}; PRAGMA application_id = {application};");
    transaction.execute_batch(&marks).map_err(store_error)?;
    // Older than this program is as good: it is copied as it is.
    is_current(&transaction)?;

    let mut rows = Vec::new();
    for table in tables.into_iter().filter(|it| it.kind == "table") {
        if EXCLUDED_TABLES.contains(&table.name.as_str()) {
            continue;
        }
        let name = table.name.replace('"', "\"\"");
        let sql = format!(
            "
-- copy_table
INSERT INTO main.\"{name}\" SELECT * FROM vault.\"{name}\""
        );
        let copied = transaction.execute(&sql, []).map_err(store_error)?;
        rows.push((table.name, u64::try_from(copied).unwrap_or(u64::MAX)));
    }
    // Triggers come last: they speak of changes, and a copy is none.
    for made in &later {
        transaction.execute_batch(&made.sql).map_err(store_error)?;
    }
    transaction.commit().map_err(store_error)?;
    Ok(CopyResult { schema: u32::try_from(version).unwrap_or_default(), rows })
}

/// Without keys and indexes, which a database of its own has again.
fn copy_read_log(
    connection: &Connection,
    vault: &Path,
    mut copied: CopyResult,
) -> Result<CopyResult, StoreError> {
    attach(connection, &read_log_path(vault), "access")?;
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    for (name, own) in READ_LOG_TABLES {
        let sql = format!("CREATE TABLE main.{own} AS SELECT * FROM access.{name}");
        transaction.execute_batch(&sql).map_err(store_error)?;
        let sql = format!("SELECT count(*) FROM main.{own}");
        let rows: i64 = transaction.query_row(&sql, [], |row| row.get(0)).map_err(store_error)?;
        copied.rows.push((own.to_owned(), rows.unsigned_abs()));
    }
    transaction.commit().map_err(store_error)?;
    Ok(copied)
}

/// Moves the access log out of a copy, which nobody has open, into a database of its own, which is
/// made; and syncs both.
///
/// # Errors
/// The copy has none, or either cannot be written.
pub fn extract_read_log(copy: &Path, read_log: &Path) -> Result<(), StoreError> {
    let connection = connection::open_writer(read_log, DatabaseKind::ReadLog)?;
    attach(&connection, copy, "copy")?;
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    for (name, own) in READ_LOG_TABLES {
        let sql = format!("INSERT INTO main.{name} SELECT * FROM copy.{own}");
        transaction.execute_batch(&sql).map_err(store_error)?;
    }
    transaction.commit().map_err(store_error)?;
    for (_, own) in READ_LOG_TABLES {
        connection.execute_batch(&format!("DROP TABLE copy.{own}")).map_err(store_error)?;
    }
    connection.close().map_err(|(_, error)| store_error(error))
}

/// A table, an index or a trigger, as it was made.
struct SchemaObject {
    kind: String,
    name: String,
    sql: String,
}

/// What the engine keeps for itself, such as statistics, it makes again when it needs them.
const LIST_SCHEMA: &str = "
-- list_schema
SELECT type, name, sql FROM vault.sqlite_schema
WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_'
ORDER BY rowid";

fn list_schema(connection: &Connection) -> Result<Vec<SchemaObject>, StoreError> {
    let mut statement = connection.prepare(LIST_SCHEMA).map_err(store_error)?;
    let rows = statement.query_map([], |row| {
        Ok(SchemaObject { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? })
    });
    rows.and_then(Iterator::collect).map_err(store_error)
}

/// What was found in a copy.
#[derive(Debug)]
pub struct ExaminedBackup {
    pub schema: u32,
    pub is_current: bool,
    /// Of an older schema the vault's own keys only: the rest is read once it has been brought up to date.
    pub directory: DirectoryRecords,
}

/// Reads a copy through and through, and changes nothing. `watch` is called all the while.
///
/// # Errors
/// It is not one of ours or newer than this program, or it is damaged.
pub fn examine(
    path: &Path,
    mut on_progress: impl FnMut() + Send + 'static,
) -> Result<ExaminedBackup, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    let look = move || {
        on_progress();
        false
    };
    connection.progress_handler(PROGRESS_INSTRUCTIONS, Some(look)).map_err(store_error)?;
    let is_current = is_current(&connection)?;
    let sound: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(store_error)?;
    if sound != "ok" {
        return Err(StoreError::Corrupt("the database is damaged"));
    }
    let mut torn = connection.prepare("PRAGMA foreign_key_check").map_err(store_error)?;
    if torn.exists([]).map_err(store_error)? {
        return Err(StoreError::Corrupt("rows of the database belong to others that are missing"));
    }
    let directory = if is_current {
        load_directory(&connection)?
    } else {
        DirectoryRecords {
            system_keys: run_ready(find_system_keys(&connection))?,
            ..DirectoryRecords::default()
        }
    };
    let schema = u32::try_from(schema_version(&connection)?).unwrap_or_default();
    Ok(ExaminedBackup { schema, is_current, directory })
}

/// Brings a copy, which nobody has open, up to date, and syncs it.
///
/// # Errors
/// It cannot be written, or is not one of ours.
pub fn upgrade(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    migrate(&mut connection, DatabaseKind::Vault)?;
    connection.close().map_err(|(_, error)| store_error(error))
}

/// Held by whoever may put a database in place: no server has it open, and none can start.
#[derive(Debug)]
pub struct ExclusiveLock {
    _lock: File,
}

/// Nothing when a server has this database open.
///
/// # Errors
/// The lock cannot be made.
pub fn lock_exclusively(path: &Path) -> Result<Option<ExclusiveLock>, StoreError> {
    // A command that begins holds it for a moment.
    const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
    Ok(connection::lock_data_directory(path, LOCK_TIMEOUT)?.map(|_lock| ExclusiveLock { _lock }))
}
