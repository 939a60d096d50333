//! The embedded engine, row by row, for [moving a vault](crate::transfer).

mod table;

use std::{fs::File, path::Path, time::Duration};

use rusqlite::Connection;
use scrip_core::store::{StoreError, StoreFuture};

use crate::{
    rules::status::find_number,
    sql::{MISSING_COLUMNS, Parameter, Statements, parameters, run_ready},
    sqlite::{
        audit::access_log::path_of,
        engine::{
            connection::{self, Kind as DatabaseKind},
            statement::{execute, fault},
        },
        tokens::entries::INSERT_ENTRY,
        transfer::table::{Database, StoredTable},
    },
    transfer::{
        Bounds, Kind, Page, Portion, Row, Rows, State, entries,
        table::{NO_PLACE, begin_state, find_state, move_state, read_page},
    },
};

/// A vault that nobody else serves while this is there.
#[derive(Debug)]
pub struct SqliteRows {
    vault: Connection,
    access: Connection,
    schema: u32,
    _lock: File,
}

/// A command that begins holds the lock for a moment.
const PATIENCE: Duration = Duration::from_millis(500);

impl SqliteRows {
    /// Opens or creates the files. Nothing when a server has them open.
    ///
    /// # Errors
    /// They cannot be used, or are not ours.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(_lock) = connection::lock(path, PATIENCE)? else { return Ok(None) };
        let vault = connection::open_writer(path, DatabaseKind::Vault)?;
        let access = connection::open_writer(&path_of(path), DatabaseKind::Access)?;
        let schema = u32::try_from(connection::schema_version(&vault)?).unwrap_or_default();
        Ok(Some(Self { vault, access, schema, _lock }))
    }

    fn connection(&self, database: Database) -> &Connection {
        match database {
            Database::Vault => &self.vault,
            Database::Access => &self.access,
        }
    }
}

const FIND_IMPORT: &str = "
-- find_import
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'import_state'";

/// Made for an import, and gone when it has ended: so a vault that was never imported into need not
/// know of it.
const CREATE_STATE: &str = "
CREATE TABLE import_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    file     BLOB NOT NULL,
    portions INTEGER NOT NULL,
    sum      BLOB NOT NULL
) STRICT";

/// Whether an import into this vault has not ended.
pub(super) fn is_importing(vault: &Connection) -> Result<bool, StoreError> {
    let found = run_ready(vault.find(FIND_IMPORT, &[], |_| Ok(())))?;
    Ok(found.is_some())
}

fn put_rows(
    connection: &Connection,
    table: &StoredTable,
    portion: &Portion,
) -> Result<(), StoreError> {
    let kind = portion.kind;
    if kind.is_single() {
        connection.execute_batch(&table.clear()).map_err(fault)?;
    }
    let sql = table.insert(kind);
    for (number, row) in portion.numbers().zip(&portion.page.rows) {
        let number = (kind == Kind::Tokens).then_some(number);
        let columns = row.iter().map(Parameter::from).chain(number.map(Parameter::from));
        let put = execute(connection, &sql, &columns.collect::<Vec<_>>())?;
        if put != 1 && table.database == Database::Vault {
            return Err(NO_PLACE);
        }
        if let Some(number) = number {
            insert_entries(connection, number, row)?;
        }
    }
    Ok(())
}

/// The entries by which a token is found.
fn insert_entries(connection: &Connection, number: i64, row: &Row) -> Result<(), StoreError> {
    let entries = entries(row).ok_or(MISSING_COLUMNS)?;
    for (facet, container) in &entries.all {
        let entry = parameters![entries.tenant, facet, container, entries.created_at, number];
        execute(connection, INSERT_ENTRY, &entry)?;
    }
    Ok(())
}

impl Rows for SqliteRows {
    fn engine(&self) -> &'static str {
        "embedded"
    }

    fn schema(&self) -> u32 {
        self.schema
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        let begin = |it: &Connection| it.execute_batch("BEGIN").map_err(fault);
        Box::pin(async move { begin(&self.vault).and_then(|()| begin(&self.access)) })
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        let end = |it: &Connection| it.execute_batch("COMMIT").map_err(fault);
        Box::pin(async move { end(&self.vault).and_then(|()| end(&self.access)) })
    }

    fn count(&mut self, kind: Kind) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let StoredTable { database, table, .. } = StoredTable::of(kind);
            run_ready(find_number(self.connection(database), &table.count()))
        })
    }

    fn count_entries(&mut self) -> StoreFuture<'_, u64> {
        let sql = "-- count_entries\nSELECT count(*) FROM filed";
        Box::pin(async move { run_ready(find_number(&self.vault, sql)) })
    }

    fn page<'a>(
        &'a mut self,
        kind: Kind,
        after: Option<&'a [u8]>,
        bounds: Bounds,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let StoredTable { database, table, .. } = StoredTable::of(kind);
            run_ready(read_page(self.connection(database), &table, kind, after, bounds))
        })
    }

    fn begun(&mut self) -> StoreFuture<'_, Option<State>> {
        Box::pin(async move {
            match is_importing(&self.vault)? {
                true => run_ready(find_state(&self.vault)),
                false => Ok(None),
            }
        })
    }

    fn begin(&mut self, state: State) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let transaction = self.vault.transaction().map_err(fault)?;
            transaction.execute_batch(CREATE_STATE).map_err(fault)?;
            run_ready(begin_state(&*transaction, state))?;
            transaction.commit().map_err(fault)
        })
    }

    /// The access log is another database. Its portion is written first; one that comes again after
    /// a crash finds its rows there.
    fn put<'a>(&'a mut self, portion: &'a Portion, state: State) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let table = StoredTable::of(portion.kind);
            if table.database == Database::Access {
                let transaction = self.access.transaction().map_err(fault)?;
                put_rows(&transaction, &table, portion)?;
                transaction.commit().map_err(fault)?;
            }
            let transaction = self.vault.transaction().map_err(fault)?;
            if table.database == Database::Vault {
                put_rows(&transaction, &table, portion)?;
            }
            if !run_ready(move_state(&*transaction, state))? {
                return Err(StoreError::Corrupt("how far the import has come is not known"));
            }
            transaction.commit().map_err(fault)
        })
    }

    fn finish<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let transaction = self.vault.transaction().map_err(fault)?;
            put_rows(&transaction, &StoredTable::of(keys.kind), keys)?;
            transaction.execute_batch("DROP TABLE import_state").map_err(fault)?;
            transaction.commit().map_err(fault)
        })
    }
}
