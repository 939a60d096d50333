//! Backup: copies one snapshot of the database while other transactions write, and examines a copy.
//!
//! Rows are copied table by table, inside one read transaction, into a new file. So the copy
//! contains nothing but rows: no freed pages and no remains of deleted data. Excluded data is never
//! written to it.

use std::{
    fs::{self, File},
    path::{Path, absolute},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use scrip_core::{
    approval::StoredDualControl, policy::DirectoryRecords, types::StoreError, unlock::VaultUnlocks,
};

use crate::{
    shared::policy::{
        directory::{SQLITE_KEYS, find_system_keys},
        unlock_rows::{find_dual_control, load_unlocks},
    },
    sql::run_sync_future,
    sqlite::{
        audit::read_log::read_log_path,
        engine::{
            connection::{
                self, BUSY_TIMEOUT, DatabaseKind, is_current, migrate, schema_version,
                vault_migrations,
            },
            statement::store_error,
        },
        maintenance::backup_schema::{
            EXAMINE_PRAGMAS, check_backup_schema, list_vault_objects, read_log_tables,
        },
        policy::directory::load_directory,
    },
};

pub use crate::sqlite::maintenance::backup_schema::READ_LOG_TABLES;

/// Tables that are empty in the copy. CVCs are encrypted with keys that stay in memory for little
/// more than an hour, so a backup of them would be useless.
pub const EXCLUDED_TABLES: [&str; 2] = ["cvcs", "intent_cvcs"];

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    pub done_bytes: u64,
    /// Estimate: a copy has no free pages, and its pages are fuller.
    pub total_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyResult {
    pub schema: u32,
    /// Number of rows per table.
    pub rows: Vec<(String, u64)>,
}

/// SQLite virtual machine instructions between two progress checks: about a millisecond.
const PROGRESS_INSTRUCTIONS: i32 = 10_000;

/// Copies a vault, which other processes may have open, into an empty file. The copy is not synced.
///
/// The read log is read after the database, so that it covers all reads of the copied data.
///
/// The WAL cannot restart during this read. The backup stops if the WAL exceeds a limit, because a
/// full disk is worse than a missing backup.
/// Errors: a file cannot be used, the source is not a supported database, or the WAL grew too long.
pub fn copy_database(
    source: &Path,
    target: &Path,
    wal_bytes_max: u64,
    report_progress: impl FnMut(BackupProgress) + Send + 'static,
) -> Result<CopyResult, StoreError> {
    let mut connection = open_copy(source, target)?;
    let watch = Arc::new(Mutex::new(ProgressWatch {
        total_bytes: 0,
        report: report_progress,
        is_wal_too_long: false,
    }));
    let check_progress = {
        let wal_paths = [source, &read_log_path(source)].map(|it| it.with_extension("db-wal"));
        let (target, watch) = (target.to_owned(), Arc::clone(&watch));
        move || {
            let mut watch = lock_watch(&watch);
            watch.report_bytes(file_size(&target));
            watch.is_wal_too_long = wal_paths.iter().any(|it| file_size(it) > wal_bytes_max);
            watch.is_wal_too_long
        }
    };
    connection
        .progress_handler(PROGRESS_INSTRUCTIONS, Some(check_progress))
        .map_err(store_error)?;
    let read_log_bytes = file_size(&read_log_path(source));
    let result = copy_tables(&connection, |vault_bytes| {
        let mut watch = lock_watch(&watch);
        watch.total_bytes = vault_bytes.saturating_add(read_log_bytes);
        watch.report_bytes(0);
    });
    let result = result.and_then(|it| copy_read_log(&connection, source, it));
    if lock_watch(&watch).is_wal_too_long {
        return Err(StoreError::Unavailable(
            "the WAL exceeded its size limit because of concurrent writes; raise the limit, or \
             try again when there is less load"
                .into(),
        ));
    }
    connection.progress_handler(0, None::<fn() -> bool>).map_err(store_error)?;
    connection.close().map_err(|(_, error)| store_error(error))?;
    result
}

/// Tracks progress through SQLite's progress handler and through the file size.
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

/// The copy is `main`, so that its schema statements run unchanged. It has no journal and is not
/// synced: an unfinished copy is never used.
const COPY_PRAGMAS: &str = "
    PRAGMA page_size = 4096;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

fn open_copy(source: &Path, target: &Path) -> Result<Connection, StoreError> {
    // Both files must already exist.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, flags).map_err(store_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    connection.execute_batch(COPY_PRAGMAS).map_err(store_error)?;
    attach(&connection, source, "vault")?;
    Ok(connection)
}

fn attach(connection: &Connection, path: &Path, name: &'static str) -> Result<(), StoreError> {
    let path = absolute(path).map_err(|error| StoreError::Unavailable(error.into()))?;
    let path = path.to_str().ok_or(StoreError::Corrupt("the path is not valid UTF-8"))?;
    connection.execute(&format!("ATTACH ?1 AS {name}"), [path]).map(drop).map_err(store_error)
}

/// Copies in one transaction, which reads one snapshot. `report_size` receives the total size when
/// the snapshot is taken.
fn copy_tables(
    connection: &Connection,
    report_size: impl FnOnce(u64),
) -> Result<CopyResult, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    let read_pragma = |name: &str| -> Result<i64, StoreError> {
        let sql = format!("PRAGMA vault.{name}");
        transaction.query_row(&sql, [], |row| row.get(0)).map_err(store_error)
    };
    let pages = read_pragma("page_count")?.saturating_sub(read_pragma("freelist_count")?);
    let bytes = pages.saturating_mul(read_pragma("page_size")?);
    report_size(bytes.unsigned_abs());

    let (version, application) = (read_pragma("user_version")?, read_pragma("application_id")?);
    let pragmas =
        format!("PRAGMA user_version = {version}; PRAGMA application_id = {application};");
    transaction.execute_batch(&pragmas).map_err(store_error)?;
    // An older schema is also copied unchanged. Objects that no migration creates are left out,
    // because a backup with them is rejected.
    let objects = list_vault_objects(vault_migrations(&transaction)?)?;
    for sql in objects.iter().filter_map(|it| it.sql.as_ref()) {
        transaction.execute_batch(sql).map_err(store_error)?;
    }

    let mut rows = Vec::new();
    for table in objects.into_iter().filter(|it| it.kind == "table") {
        if EXCLUDED_TABLES.contains(&table.name.as_str()) {
            continue;
        }
        let name = table.name.replace('"', "\"\"");
        let sql = format!(
            "
-- copy_table
INSERT INTO main.\"{name}\" SELECT * FROM vault.\"{name}\""
        );
        let row_count = transaction.execute(&sql, []).map_err(store_error)?;
        rows.push((table.name, u64::try_from(row_count).unwrap_or(u64::MAX)));
    }
    transaction.commit().map_err(store_error)?;
    Ok(CopyResult { schema: u32::try_from(version).unwrap_or_default(), rows })
}

/// Copies the rows of the read log. Keys and indexes are created when the read log is extracted.
fn copy_read_log(
    connection: &Connection,
    vault: &Path,
    mut copied: CopyResult,
) -> Result<CopyResult, StoreError> {
    attach(connection, &read_log_path(vault), "read_log")?;
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    let version: u32 = transaction
        .query_row("PRAGMA read_log.user_version", [], |row| row.get(0))
        .map_err(store_error)?;
    // The two files are migrated one after the other. A backup stores one version for both.
    if version != copied.schema {
        return Err(StoreError::Corrupt(
            "the vault and its read log have different schema versions: a migration was \
             interrupted. Start the server, which completes the migration",
        ));
    }
    // The copy has the version of the vault, which the read log has too.
    for (name, copy_name) in read_log_tables(vault_migrations(&transaction)?) {
        let sql = format!("CREATE TABLE main.{copy_name} AS SELECT * FROM read_log.{name}");
        transaction.execute_batch(&sql).map_err(store_error)?;
        let sql = format!("SELECT count(*) FROM main.{copy_name}");
        let rows: i64 = transaction.query_row(&sql, [], |row| row.get(0)).map_err(store_error)?;
        copied.rows.push((copy_name.to_owned(), rows.unsigned_abs()));
    }
    transaction.commit().map_err(store_error)?;
    Ok(copied)
}

/// Moves the read log from a copy, which no process has open, into a new database with the newest
/// schema, and syncs both.
/// Errors: the copy has no read log, or a file cannot be written.
pub fn extract_read_log(copy: &Path, read_log: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let migrations =
        vault_migrations(&Connection::open_with_flags(copy, flags).map_err(store_error)?)?;
    // The rows have the columns of the copy's schema.
    let mut connection = connection::open_writer_with(read_log, DatabaseKind::ReadLog, migrations)?;
    attach(&connection, copy, "copy")?;
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    for (name, copy_name) in read_log_tables(migrations) {
        let sql = format!("INSERT INTO main.{name} SELECT * FROM copy.{copy_name}");
        transaction.execute_batch(&sql).map_err(store_error)?;
    }
    transaction.commit().map_err(store_error)?;
    for (_, copy_name) in read_log_tables(migrations) {
        connection.execute_batch(&format!("DROP TABLE copy.{copy_name}")).map_err(store_error)?;
    }
    connection.execute_batch("DETACH copy").map_err(store_error)?;
    migrate(&mut connection, DatabaseKind::ReadLog)?;
    connection.close().map_err(|(_, error)| store_error(error))
}

/// The number of migrations with which a vault has unlock methods.
const UNLOCK_MIGRATION: usize = 8;

/// Content of an examined copy.
#[derive(Debug)]
pub struct ExaminedBackup {
    pub schema: u32,
    pub is_current: bool,
    /// For an older schema only the system keys and the unlock methods. The other records are read
    /// after the upgrade.
    pub directory: DirectoryRecords,
}

/// Reads a whole copy and changes nothing. `on_progress` is called repeatedly.
/// Errors: the file is not a Scrip database, has another schema, is newer than this program, or is
/// damaged.
pub fn examine(
    path: &Path,
    mut on_progress: impl FnMut() + Send + 'static,
) -> Result<ExaminedBackup, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    let check_progress = move || {
        on_progress();
        false
    };
    connection
        .progress_handler(PROGRESS_INSTRUCTIONS, Some(check_progress))
        .map_err(store_error)?;
    connection.execute_batch(EXAMINE_PRAGMAS).map_err(store_error)?;
    let migrations = vault_migrations(&connection)?;
    let is_current = is_current(migrations);
    check_backup_schema(&connection, migrations)?;
    let integrity: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(store_error)?;
    if integrity != "ok" {
        return Err(StoreError::Corrupt("the database is damaged"));
    }
    let mut broken_references =
        connection.prepare("PRAGMA foreign_key_check").map_err(store_error)?;
    if broken_references.exists([]).map_err(store_error)? {
        return Err(StoreError::Corrupt("rows of the database refer to missing rows"));
    }
    let directory = if is_current {
        load_directory(&connection)?
    } else {
        DirectoryRecords {
            system_keys: run_sync_future(find_system_keys(&connection))?,
            unlocks: match migrations >= UNLOCK_MIGRATION {
                true => run_sync_future(load_unlocks(&connection, SQLITE_KEYS.list_unlocks))?,
                false => VaultUnlocks::default(),
            },
            ..DirectoryRecords::default()
        }
    };
    let schema = u32::try_from(schema_version(&connection)?).unwrap_or_default();
    Ok(ExaminedBackup { schema, is_current, directory })
}

/// Reads the state of dual control, which is not verified, without a migration of an older schema.
/// Errors: the file is not a database.
pub fn read_dual_control(path: &Path) -> Result<StoredDualControl, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'dual_control'";
    let has_table = connection.prepare(sql).and_then(|mut it| it.exists([]));
    match has_table.map_err(store_error)? {
        true => run_sync_future(find_dual_control(&connection)),
        false => Ok(StoredDualControl::Missing),
    }
}

/// Migrates a copy, which no process has open, to the newest schema, syncs it, and reads its policy.
/// [`extract_read_log`] must have removed the read log, which has a schema of its own.
///
/// Errors: the copy cannot be written, or is not a Scrip database.
pub fn upgrade(path: &Path) -> Result<ExaminedBackup, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    migrate(&mut connection, DatabaseKind::Vault)?;
    let directory = load_directory(&connection)?;
    let schema = u32::try_from(schema_version(&connection)?).unwrap_or_default();
    connection.close().map_err(|(_, error)| store_error(error))?;
    Ok(ExaminedBackup { schema, is_current: true, directory })
}

/// Allows its holder to replace the database: no server has the database open, and no server can
/// start.
#[derive(Debug)]
pub struct ExclusiveLock {
    _lock: File,
}

/// Returns `None` if a server has this database open.
/// Errors: the lock cannot be created.
pub fn lock_exclusively(path: &Path) -> Result<Option<ExclusiveLock>, StoreError> {
    // A command holds the lock for a moment when it starts.
    const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
    Ok(connection::lock_data_directory(path, LOCK_TIMEOUT)?.map(|_lock| ExclusiveLock { _lock }))
}
