//! Opening the database file: settings, schema, and who may have it open.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use scrip_core::store::StoreError;

use crate::sqlite::engine::statement::store_error;

/// How readers see the pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMode {
    /// Mapped: no copy, and the kernel forgets what it needs to.
    Mapped,
    /// Copied into a cache: for a process whose memory is locked, where a mapped page would stay
    /// for good.
    Cached,
}

/// What kind of database a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Vault,
    ReadLog,
}

impl DatabaseKind {
    /// One for each schema version, in order. A released one never changes. The two kinds have the
    /// same versions: a backup has both, and says one.
    fn migrations(self) -> &'static [&'static str] {
        match self {
            Self::Vault => &[include_str!("../migrations/0004.sql")],
            Self::ReadLog => &[include_str!("../migrations/access-0004.sql")],
        }
    }

    /// What its writer keeps of it. Tokens are found and filed all over the vault; a log is written
    /// at its end.
    fn cache_pragma(self) -> &'static str {
        match self {
            Self::Vault => "PRAGMA cache_size = -16384;",
            Self::ReadLog => "PRAGMA cache_size = -2048;",
        }
    }

    /// Marks the file as ours: "scrp" and "scra".
    fn application_id(self) -> i32 {
        match self {
            Self::Vault => 0x7363_7270,
            Self::ReadLog => 0x7363_7261,
        }
    }
}

/// The version before the first migration. Files of it, and of those before, were never released:
/// their policy has no macs, or their rows lack columns of this schema.
const VERSION_BEFORE_FIRST: usize = 3;

/// `synchronous = FULL` makes a commit durable. The log is checkpointed by a thread of its own and
/// not shortened: overwriting it is many times cheaper than appending to it. Only what it grew
/// while somebody read for long, such as a backup, is given back when it starts over: the limit is
/// twice the mark at which it does. The page size counts for a new file only.
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

/// What the schema reckons with, where it says how keys are kept apart.
const PAGE_BYTES: u32 = 4096;

/// How long one process waits for another's transaction.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements kept prepared by each connection: more than the engine has.
const STATEMENTS_MAX: usize = 128;

pub(crate) fn open_writer(path: &Path, kind: DatabaseKind) -> Result<Connection, StoreError> {
    create_private(path)?;
    let mut connection = open(path)?;
    connection.execute_batch(kind.cache_pragma()).map_err(store_error)?;
    migrate(&mut connection, kind)?;
    Ok(connection)
}

/// Beside a server that has the file open already, and has brought its schema up to date.
pub(crate) fn open_writer_alongside_server(
    path: &Path,
    kind: DatabaseKind,
) -> Result<Connection, StoreError> {
    let connection = open(path)?;
    if schema_version(&connection)? != kind.migrations().len().saturating_add(VERSION_BEFORE_FIRST)
    {
        return Err(StoreError::Corrupt("the server has another version of this program"));
    }
    Ok(connection)
}

pub(crate) fn schema_version(connection: &Connection) -> Result<usize, StoreError> {
    let version: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

pub(crate) fn open_reader(path: &Path, pages: PageMode) -> Result<Connection, StoreError> {
    let connection = open(path)?;
    let settings = match pages {
        // Mapped pages are the kernel's, so a reader needs next to no cache of its own.
        PageMode::Mapped => {
            "PRAGMA query_only = ON; PRAGMA mmap_size = 17179869184; PRAGMA cache_size = -512;"
        }
        PageMode::Cached => {
            "PRAGMA query_only = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -8192;"
        }
    };
    connection.execute_batch(settings).map_err(store_error)?;
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
    // Without it a kept statement is compiled again at every new bound value: a third of a read.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Work in which what is unlinked is overwritten with zeros, also where nothing else is written.
pub(crate) fn with_secure_delete<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("PRAGMA secure_delete = ON").map_err(store_error)?;
    let result = work();
    connection.execute_batch("PRAGMA secure_delete = FAST").map_err(store_error)?;
    result
}

/// The log and its index get the mode of the file they belong to.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map(drop).map_err(|error| StoreError::Unavailable(error.into()))
}

/// Held as long as a server has the store open: two of them would share no queue and no claims.
/// Nothing when somebody else holds it for longer than an operator's command takes to begin.
pub(crate) fn lock_data_directory(
    path: &Path,
    timeout: Duration,
) -> Result<Option<File>, StoreError> {
    let owner = fs::metadata(path).ok();
    let path = path.with_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let unavailable = |_| StoreError::Unavailable("the lock file cannot be opened".into());
    let file = file.map_err(unavailable)?;
    // A command that root ran must not leave a file that the server cannot open.
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

const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How many migrations are behind a database that we can use; refuses any other.
fn applied_migrations(connection: &Connection, kind: DatabaseKind) -> Result<usize, StoreError> {
    let version = schema_version(connection)?;
    let application: i32 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(store_error)?;
    let tables: u32 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(store_error)?;
    // A database of somebody else need not have a version, but it has something in it.
    let is_new = version == 0 && application == 0 && tables == 0;
    if !is_new && application != kind.application_id() {
        return Err(StoreError::Corrupt("the database file is not one of ours"));
    }
    if !is_new && version <= VERSION_BEFORE_FIRST {
        return Err(StoreError::Corrupt(
            "the database is of an early version that was never released; make a new one",
        ));
    }
    let done = version.saturating_sub(VERSION_BEFORE_FIRST);
    if done > kind.migrations().len() {
        return Err(StoreError::Corrupt(
            "the database was written by a newer version of this program; use that one",
        ));
    }
    let page_bytes: u32 =
        connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
    if page_bytes != PAGE_BYTES {
        return Err(StoreError::Corrupt(
            "the database has pages of another size; a backup of it, restored, has the right one",
        ));
    }
    Ok(done)
}

/// Whether a database, which has to be one of ours and not newer than this program, is as new.
pub(crate) fn is_current(connection: &Connection) -> Result<bool, StoreError> {
    match applied_migrations(connection, DatabaseKind::Vault)? {
        0 => Err(StoreError::Corrupt("the database is empty")),
        done => Ok(done == DatabaseKind::Vault.migrations().len()),
    }
}

pub(crate) fn migrate(connection: &mut Connection, kind: DatabaseKind) -> Result<(), StoreError> {
    let done = applied_migrations(connection, kind)?;
    let application_id = kind.application_id();
    for (step, sql) in kind.migrations().iter().enumerate().skip(done) {
        let transaction = connection.transaction().map_err(store_error)?;
        let after = VERSION_BEFORE_FIRST.saturating_add(step).saturating_add(1);
        let mark =
            format!("PRAGMA user_version = {after}; PRAGMA application_id = {application_id};");
        transaction.execute_batch(sql).map_err(store_error)?;
        transaction.execute_batch(&mark).map_err(store_error)?;
        transaction.commit().map_err(store_error)?;
    }
    Ok(())
}
