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
    rules::policy::directory::find_system_keys,
    sql::run_ready,
    sqlite::{
        audit::access_log::path_of,
        engine::{
            connection::{self, BUSY_TIMEOUT, Kind, is_current, migrate, schema_version},
            statement::fault,
        },
        policy::directory::load_directory,
    },
};

/// Tables that come out empty. Card verification codes are sealed under keys that live in memory
/// for little more than an hour: in a backup they would only lie around.
pub const LEFT_OUT: [&str; 2] = ["cvcs", "intent_cvcs"];

/// The access log is another database; in a copy its tables stand beside the others, under names of
/// their own, each first as it is there.
pub const ACCESS_TABLES: [(&str, &str); 5] = [
    ("audit", "access_records"),
    ("audit_heads", "access_heads"),
    ("audit_checkpoints", "access_checkpoints"),
    ("active_tokens", "active_tokens"),
    ("active_months", "active_months"),
];

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    pub done_bytes: u64,
    /// About: a copy has no free pages, and fuller ones.
    pub all_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub schema: u32,
    /// How many each table has.
    pub rows: Vec<(String, u64)>,
}

/// Instructions of the engine between two looks at how far it is: about a millisecond.
const LOOK_EVERY: i32 = 10_000;

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
    log_bytes_max: u64,
    watch: impl FnMut(Portion) + Send + 'static,
) -> Result<Copied, StoreError> {
    let mut connection = open_both(from, to)?;
    let watch = Arc::new(Mutex::new(Watch { all_bytes: 0, tell: watch, is_too_long: false }));
    let look = {
        let logs = [from, &path_of(from)].map(|it| it.with_extension("db-wal"));
        let (to, watch) = (to.to_owned(), Arc::clone(&watch));
        move || {
            let mut watch = locked(&watch);
            watch.tell(size(&to));
            watch.is_too_long = logs.iter().any(|it| size(it) > log_bytes_max);
            watch.is_too_long
        }
    };
    connection.progress_handler(LOOK_EVERY, Some(look)).map_err(fault)?;
    let beside = size(&path_of(from));
    let copied = copy_tables(&connection, |all_bytes| {
        let mut watch = locked(&watch);
        watch.all_bytes = all_bytes.saturating_add(beside);
        watch.tell(0);
    });
    let copied = copied.and_then(|copied| copy_access(&connection, from, copied));
    if locked(&watch).is_too_long {
        return Err(StoreError::Unavailable(
            "the log of the database has grown past the bound, because so much was written \
             meanwhile; allow a longer one, or try when there is less to do"
                .into(),
        ));
    }
    connection.progress_handler(0, None::<fn() -> bool>).map_err(fault)?;
    connection.close().map_err(|(_, error)| fault(error))?;
    copied
}

/// What looks at a copy from within the engine, and from without.
struct Watch<F> {
    all_bytes: u64,
    tell: F,
    is_too_long: bool,
}

impl<F: FnMut(Portion)> Watch<F> {
    fn tell(&mut self, done_bytes: u64) {
        (self.tell)(Portion { done_bytes, all_bytes: self.all_bytes });
    }
}

fn locked<T>(watch: &Mutex<T>) -> MutexGuard<'_, T> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}

/// The copy is `main`, so that statements which make tables are run as they were written. It has
/// no journal and is not synced: until it is whole and has its name, it is nobody's database.
const COPY_SETTINGS: &str = "
    PRAGMA page_size = 4096;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

fn open_both(from: &Path, to: &Path) -> Result<Connection, StoreError> {
    // Neither is ever created here.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(to, flags).map_err(fault)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(fault)?;
    connection.execute_batch(COPY_SETTINGS).map_err(fault)?;
    attach(&connection, from, "vault")?;
    Ok(connection)
}

fn attach(connection: &Connection, path: &Path, name: &'static str) -> Result<(), StoreError> {
    let path = absolute(path).map_err(|error| StoreError::Unavailable(error.into()))?;
    let path = path.to_str().ok_or(StoreError::Corrupt("its path is no text"))?;
    connection.execute(&format!("ATTACH ?1 AS {name}"), [path]).map(drop).map_err(fault)
}

/// One transaction: what is read is of one instant, whatever others commit meanwhile.
/// `begun` hears how much there is once that instant is chosen.
fn copy_tables(connection: &Connection, begun: impl FnOnce(u64)) -> Result<Copied, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(fault)?;
    let number = |name: &str| -> Result<i64, StoreError> {
        let sql = format!("PRAGMA vault.{name}");
        transaction.query_row(&sql, [], |row| row.get(0)).map_err(fault)
    };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    let bytes = pages.saturating_mul(number("page_size")?);
    begun(bytes.unsigned_abs());

    let (tables, later): (Vec<_>, Vec<_>) =
        schema(&transaction)?.into_iter().partition(|it| matches!(&*it.kind, "table" | "index"));
    for made in &tables {
        transaction.execute_batch(&made.sql).map_err(fault)?;
    }
    let (version, application) = (number("user_version")?, number("application_id")?);
    let marks = format!("PRAGMA user_version = {version}; PRAGMA application_id = {application};");
    transaction.execute_batch(&marks).map_err(fault)?;
    // Older than this program is as good: it is copied as it is.
    is_current(&transaction)?;

    let mut rows = Vec::new();
    for table in tables.into_iter().filter(|it| it.kind == "table") {
        if LEFT_OUT.contains(&table.name.as_str()) {
            continue;
        }
        let name = table.name.replace('"', "\"\"");
        let sql = format!(
            "
-- copy_table
INSERT INTO main.\"{name}\" SELECT * FROM vault.\"{name}\""
        );
        let copied = transaction.execute(&sql, []).map_err(fault)?;
        rows.push((table.name, u64::try_from(copied).unwrap_or(u64::MAX)));
    }
    // Triggers come last: they speak of changes, and a copy is none.
    for made in &later {
        transaction.execute_batch(&made.sql).map_err(fault)?;
    }
    transaction.commit().map_err(fault)?;
    Ok(Copied { schema: u32::try_from(version).unwrap_or_default(), rows })
}

/// Without keys and indexes, which a database of its own has again.
fn copy_access(
    connection: &Connection,
    vault: &Path,
    mut copied: Copied,
) -> Result<Copied, StoreError> {
    attach(connection, &path_of(vault), "access")?;
    let transaction = connection.unchecked_transaction().map_err(fault)?;
    for (name, own) in ACCESS_TABLES {
        let sql = format!("CREATE TABLE main.{own} AS SELECT * FROM access.{name}");
        transaction.execute_batch(&sql).map_err(fault)?;
        let sql = format!("SELECT count(*) FROM main.{own}");
        let rows: i64 = transaction.query_row(&sql, [], |row| row.get(0)).map_err(fault)?;
        copied.rows.push((own.to_owned(), rows.unsigned_abs()));
    }
    transaction.commit().map_err(fault)?;
    Ok(copied)
}

/// Moves the access log out of a copy, which nobody has open, into a database of its own, which is
/// made; and syncs both.
///
/// # Errors
/// The copy has none, or either cannot be written.
pub fn take_out_access(copy: &Path, access: &Path) -> Result<(), StoreError> {
    let connection = connection::open_writer(access, Kind::Access)?;
    attach(&connection, copy, "copy")?;
    let transaction = connection.unchecked_transaction().map_err(fault)?;
    for (name, own) in ACCESS_TABLES {
        let sql = format!("INSERT INTO main.{name} SELECT * FROM copy.{own}");
        transaction.execute_batch(&sql).map_err(fault)?;
    }
    transaction.commit().map_err(fault)?;
    for (_, own) in ACCESS_TABLES {
        connection.execute_batch(&format!("DROP TABLE copy.{own}")).map_err(fault)?;
    }
    connection.close().map_err(|(_, error)| fault(error))
}

/// A table, an index or a trigger, as it was made.
struct Made {
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

fn schema(connection: &Connection) -> Result<Vec<Made>, StoreError> {
    let mut statement = connection.prepare(LIST_SCHEMA).map_err(fault)?;
    let rows = statement
        .query_map([], |row| Ok(Made { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? }));
    rows.and_then(Iterator::collect).map_err(fault)
}

/// What was found in a copy.
#[derive(Debug)]
pub struct Examined {
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
    mut watch: impl FnMut() + Send + 'static,
) -> Result<Examined, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    let look = move || {
        watch();
        false
    };
    connection.progress_handler(LOOK_EVERY, Some(look)).map_err(fault)?;
    let is_current = is_current(&connection)?;
    let sound: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(fault)?;
    if sound != "ok" {
        return Err(StoreError::Corrupt("the database is damaged"));
    }
    let mut torn = connection.prepare("PRAGMA foreign_key_check").map_err(fault)?;
    if torn.exists([]).map_err(fault)? {
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
    Ok(Examined { schema, is_current, directory })
}

/// Brings a copy, which nobody has open, up to date, and syncs it.
///
/// # Errors
/// It cannot be written, or is not one of ours.
pub fn upgrade(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    migrate(&mut connection, Kind::Vault)?;
    connection.close().map_err(|(_, error)| fault(error))
}

/// Held by whoever may put a database in place: no server has it open, and none can start.
#[derive(Debug)]
pub struct Vacancy {
    _lock: File,
}

/// Nothing when a server has this database open.
///
/// # Errors
/// The lock cannot be made.
pub fn vacate(path: &Path) -> Result<Option<Vacancy>, StoreError> {
    // A command that begins holds it for a moment.
    const PATIENCE: Duration = Duration::from_millis(500);
    Ok(connection::lock(path, PATIENCE)?.map(|_lock| Vacancy { _lock }))
}
