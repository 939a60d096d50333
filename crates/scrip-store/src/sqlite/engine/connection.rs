//! Opens the database file: settings, schema and the lock of the data directory.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use scrip_core::types::StoreError;

use crate::{migrations::MIGRATIONS, sqlite::engine::statement::store_error};

/// How readers access the pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMode {
    /// Memory-mapped: no copies, and the kernel can evict pages.
    Mapped,
    /// Copied into a cache, for a process with locked memory, where mapped pages could never be
    /// evicted.
    Cached,
}

/// The kind of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Vault,
    ReadLog,
}

impl DatabaseKind {
    /// The migrations, one per schema version, in order.
    fn migrations(self) -> impl ExactSizeIterator<Item = &'static str> {
        MIGRATIONS.iter().map(move |it| match self {
            Self::Vault => it.vault,
            Self::ReadLog => it.read_log.unwrap_or_default(),
        })
    }

    /// Sets the page cache of the writer. Token writes touch pages of the whole vault; the read log
    /// is only appended to.
    fn cache_pragma(self) -> &'static str {
        match self {
            Self::Vault => "PRAGMA cache_size = -16384;",
            Self::ReadLog => "PRAGMA cache_size = -2048;",
        }
    }

    /// Identifies the file as a Scrip database: "scrp" and "scra".
    fn application_id(self) -> i32 {
        match self {
            Self::Vault => 0x7363_7270,
            Self::ReadLog => 0x7363_7261,
        }
    }
}

/// The version before the first migration. Files with this version or an older one were never
/// released: their policy has no MACs, or their rows lack columns of this schema.
const VERSION_BEFORE_FIRST: usize = 3;

const UNRELEASED_VERSION: StoreError = StoreError::Corrupt(
    "the database has an early version that was never released; create a new one",
);

/// `synchronous = FULL` makes a commit durable. A background thread checkpoints the WAL and does
/// not shrink it, because overwriting is much cheaper than appending. Only a WAL that grew during a
/// long read, such as a backup, is truncated at its next restart: the size limit is twice the
/// restart threshold. The page size applies to a new file only.
const CONNECTION_PRAGMAS: &str = "
    PRAGMA page_size = 4096;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 134217728;
    PRAGMA foreign_keys = ON;
    PRAGMA secure_delete = FAST;
    PRAGMA temp_store = MEMORY;
";

/// The schema relies on this size to place each key on a separate page.
const PAGE_BYTES: u32 = 4096;

/// How long the server waits for the transaction of a command.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a command waits for the server. SQLite polls for the lock, and a server under load
/// releases it only for moments, so that a command can miss it many times.
const COMMAND_BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of cached statements per connection: more than the engine has.
const STATEMENTS_MAX: usize = 128;

pub(crate) fn open_writer(path: &Path, kind: DatabaseKind) -> Result<Connection, StoreError> {
    open_writer_with(path, kind, kind.migrations().len())
}

/// Opens or creates a file, and runs its first migrations only.
pub(crate) fn open_writer_with(
    path: &Path,
    kind: DatabaseKind,
    migrations: usize,
) -> Result<Connection, StoreError> {
    create_private(path)?;
    let mut connection = open(path)?;
    connection.execute_batch(kind.cache_pragma()).map_err(store_error)?;
    run_missing_migrations(&mut connection, kind, migrations)?;
    Ok(connection)
}

/// Opens a file that a server has open. The server has already migrated the schema.
pub(crate) fn open_writer_alongside_server(
    path: &Path,
    kind: DatabaseKind,
) -> Result<Connection, StoreError> {
    let connection = open(path)?;
    if schema_version(&connection)? != kind.migrations().len().saturating_add(VERSION_BEFORE_FIRST)
    {
        return Err(StoreError::Corrupt("the server runs another version of this program"));
    }
    connection.busy_timeout(COMMAND_BUSY_TIMEOUT).map_err(store_error)?;
    Ok(connection)
}

pub(crate) fn schema_version(connection: &Connection) -> Result<usize, StoreError> {
    let version: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

pub(crate) fn open_reader(path: &Path, page_mode: PageMode) -> Result<Connection, StoreError> {
    let connection = open(path)?;
    let pragmas = match page_mode {
        // The kernel caches mapped pages, so a reader needs almost no cache.
        PageMode::Mapped => {
            "PRAGMA query_only = ON; PRAGMA mmap_size = 17179869184; PRAGMA cache_size = -512;"
        }
        PageMode::Cached => {
            "PRAGMA query_only = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -8192;"
        }
    };
    connection.execute_batch(pragmas).map_err(store_error)?;
    Ok(connection)
}

pub(crate) fn open_checkpointer(path: &Path) -> Result<Connection, StoreError> {
    open(path)
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    connection.execute_batch(CONNECTION_PRAGMAS).map_err(store_error)?;
    // Without this setting SQLite recompiles a cached statement for each new value, a third of the
    // cost of a read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Runs work with another busy timeout.
pub(crate) fn with_busy_timeout<T>(
    connection: &Connection,
    timeout: Duration,
    work: impl FnOnce() -> T,
) -> T {
    let previous: Result<u32, _> =
        connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0));
    drop(connection.busy_timeout(timeout));
    let result = work();
    drop(
        connection
            .busy_timeout(previous.map_or(BUSY_TIMEOUT, |it| Duration::from_millis(it.into()))),
    );
    result
}

/// Runs work that overwrites deleted content with zeros (`secure_delete`).
pub(crate) fn with_secure_delete<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("PRAGMA secure_delete = ON").map_err(store_error)?;
    let result = work();
    connection.execute_batch("PRAGMA secure_delete = FAST").map_err(store_error)?;
    result
}

/// Creates a file that only its owner can read. The WAL and its index get the same mode.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map(drop).map_err(|error| StoreError::Unavailable(error.into()))
}

/// Locks the data directory. A server holds the lock while it has the store open, because two
/// servers would not share their write queue and idempotency claims. Returns `None` if another
/// process still holds the lock after the timeout, which is longer than an operator command takes
/// to start.
pub(crate) fn lock_data_directory(
    path: &Path,
    timeout: Duration,
) -> Result<Option<File>, StoreError> {
    let owner = fs::metadata(path).ok();
    let path = path.with_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let lock_file_error = |_| StoreError::Unavailable("the lock file cannot be opened".into());
    let file = file.map_err(lock_file_error)?;
    // A command run as root must not leave a file that the server cannot open.
    if let Some(owner) = owner {
        drop(fchown(&file, Some(owner.uid()), Some(owner.gid())));
    }
    let mut waited = Duration::ZERO;
    while file.try_lock().is_err() {
        if waited >= timeout {
            return Ok(None);
        }
        std::thread::sleep(LOCK_PAUSE);
        waited = waited.saturating_add(LOCK_PAUSE);
    }
    Ok(Some(file))
}

/// Pause between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Returns the number of applied migrations. An unsupported database is an error.
fn applied_migrations(connection: &Connection, kind: DatabaseKind) -> Result<usize, StoreError> {
    let version = schema_version(connection)?;
    let application_id: i32 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(store_error)?;
    let table_count: u32 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(store_error)?;
    // A database of another program may have no version, but it has tables.
    let is_new = version == 0 && application_id == 0 && table_count == 0;
    if !is_new && application_id != kind.application_id() {
        return Err(StoreError::Corrupt("the file is not a Scrip database"));
    }
    if !is_new && version <= VERSION_BEFORE_FIRST {
        return Err(UNRELEASED_VERSION);
    }
    let applied = version.saturating_sub(VERSION_BEFORE_FIRST);
    if applied > kind.migrations().len() {
        return Err(StoreError::Corrupt(
            "the database was written by a newer version of this program; use that one",
        ));
    }
    let page_bytes: u32 =
        connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
    if page_bytes != PAGE_BYTES {
        return Err(StoreError::Corrupt(
            "the database has an unsupported page size; back it up and restore the backup",
        ));
    }
    Ok(applied)
}

/// Runs the first migrations in an empty database, without its version.
pub(crate) fn run_migrations(
    connection: &Connection,
    kind: DatabaseKind,
    count: usize,
) -> Result<(), StoreError> {
    let mut migrations = kind.migrations().take(count);
    migrations.try_for_each(|sql| connection.execute_batch(sql)).map_err(store_error)
}

/// The number of migrations of a vault. It must be a Scrip database and not newer than this
/// program.
pub(crate) fn vault_migrations(connection: &Connection) -> Result<usize, StoreError> {
    match applied_migrations(connection, DatabaseKind::Vault)? {
        0 => Err(StoreError::Corrupt("the database is empty")),
        applied => Ok(applied),
    }
}

/// Whether a vault with this number of migrations has the newest schema.
pub(crate) fn is_current(migrations: usize) -> bool {
    migrations == DatabaseKind::Vault.migrations().len()
}

/// Migrates a database to the newest schema.
pub(crate) fn migrate(connection: &mut Connection, kind: DatabaseKind) -> Result<(), StoreError> {
    run_missing_migrations(connection, kind, kind.migrations().len())
}

/// Runs those of the first migrations that the database does not have yet, each in a transaction.
fn run_missing_migrations(
    connection: &mut Connection,
    kind: DatabaseKind,
    count: usize,
) -> Result<(), StoreError> {
    let applied = applied_migrations(connection, kind)?;
    let application_id = kind.application_id();
    for (index, sql) in kind.migrations().enumerate().take(count).skip(applied) {
        let transaction = connection.transaction().map_err(store_error)?;
        let new_version = VERSION_BEFORE_FIRST.saturating_add(index).saturating_add(1);
        let pragmas = format!(
            "PRAGMA user_version = {new_version}; PRAGMA application_id = {application_id};"
        );
        transaction.execute_batch(sql).map_err(migration_error)?;
        transaction.execute_batch(&pragmas).map_err(store_error)?;
        transaction.commit().map_err(store_error)?;
    }
    Ok(())
}

/// The SQL of a migration is valid for the schema before it. If SQLite cannot prepare the SQL, a
/// build between two versions created the schema: for example, a table of the migration exists.
fn migration_error(error: rusqlite::Error) -> StoreError {
    let is_schema_error =
        error.sqlite_error().is_none_or(|it| it.extended_code == rusqlite::ffi::SQLITE_ERROR);
    if is_schema_error { UNRELEASED_VERSION } else { store_error(error) }
}
