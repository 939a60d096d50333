//! Row-by-row access to SQLite for the [export and import of a vault](crate::transfer).

pub(crate) mod table;

use std::{fs::File, path::Path, time::Duration};

use rusqlite::Connection;
use scrip_core::types::{StoreError, StoreFuture};

use crate::{
    shared::status::query_number,
    sql::{MISSING_COLUMNS, Parameter, Statements, parameters, run_sync_future},
    sqlite::{
        audit::{
            read_deliveries::{copy_read_deliveries, delete_read_deliveries, list_read_deliveries},
            read_log::read_log_path,
        },
        engine::{
            connection::{self, DatabaseKind},
            statement::{execute, store_error},
        },
        tokens::writes::INSERT_INDEX_ENTRY,
        transfer::table::{SqliteTable, TransferDatabase},
    },
    transfer::{
        ImportState, PageBounds, Portion, RowKind, RowPage, TransferEngine, TransferRow,
        table::{
            MISSING_PARENT_ROW, advance_import_state, find_import_state, insert_import_state,
            read_page,
        },
        token_entries,
    },
};

/// Transfers a vault. No server can open the vault while this value exists.
#[derive(Debug)]
pub struct SqliteTransfer {
    vault: Connection,
    read_log: Connection,
    schema: u32,
    _lock: File,
}

/// How long to wait for the lock. A command holds it for a moment when it starts.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

impl SqliteTransfer {
    /// Opens or creates the files. Returns `None` if a server has them open.
    /// Errors: the files cannot be used, or are not Scrip databases.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(_lock) = connection::lock_data_directory(path, LOCK_TIMEOUT)? else {
            return Ok(None);
        };
        let mut vault = connection::open_writer(path, DatabaseKind::Vault)?;
        let read_log = connection::open_writer(&read_log_path(path), DatabaseKind::ReadLog)?;
        move_read_deliveries(&mut vault, &read_log)?;
        let schema = u32::try_from(connection::schema_version(&vault)?).unwrap_or_default();
        Ok(Some(Self { vault, read_log, schema, _lock }))
    }

    fn connection(&self, database: TransferDatabase) -> &Connection {
        match database {
            TransferDatabase::Vault => &self.vault,
            TransferDatabase::ReadLog => &self.read_log,
        }
    }
}

/// Moves all deliveries of reads to the vault: a file has all deliveries in one place.
fn move_read_deliveries(vault: &mut Connection, read_log: &Connection) -> Result<(), StoreError> {
    loop {
        let rows = list_read_deliveries(read_log)?;
        if rows.is_empty() {
            return Ok(());
        }
        let transaction = vault.transaction().map_err(store_error)?;
        copy_read_deliveries(&transaction, &rows)?;
        transaction.commit().map_err(store_error)?;
        delete_read_deliveries(read_log, &rows)?;
    }
}

const FIND_IMPORT: &str = "
-- find_import
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'import_state'";

/// Created for an import and dropped at its end, so the schema of other vaults does not contain it.
const CREATE_IMPORT_STATE: &str = "
CREATE TABLE import_state (
    singleton     INTEGER PRIMARY KEY CHECK (singleton = 1),
    file_checksum BLOB NOT NULL,
    portions      INTEGER NOT NULL,
    checksum      BLOB NOT NULL
) STRICT";

/// Whether an import into this vault is unfinished.
pub(super) fn has_unfinished_import(vault: &Connection) -> Result<bool, StoreError> {
    let import_table = run_sync_future(vault.find(FIND_IMPORT, &[], |_| Ok(())))?;
    Ok(import_table.is_some())
}

fn put_rows(
    connection: &Connection,
    table: &SqliteTable,
    portion: &Portion,
) -> Result<(), StoreError> {
    let kind = portion.kind;
    if kind.is_singleton() {
        connection.execute_batch(&table.clear_statement()).map_err(store_error)?;
    }
    let sql = table.insert_statement(kind);
    for (number, row) in portion.token_numbers().zip(&portion.page.rows) {
        let number = (kind == RowKind::Tokens).then_some(number);
        let values = row.iter().map(Parameter::from).chain(number.map(Parameter::from));
        let inserted = execute(connection, &sql, &values.collect::<Vec<_>>())?;
        if inserted != 1 && table.database == TransferDatabase::Vault {
            return Err(MISSING_PARENT_ROW);
        }
        if let Some(number) = number {
            insert_index_entries(connection, number, row)?;
        }
    }
    Ok(())
}

/// Inserts the index entries of a token.
fn insert_index_entries(
    connection: &Connection,
    number: i64,
    row: &TransferRow,
) -> Result<(), StoreError> {
    let entries = token_entries(row).ok_or(MISSING_COLUMNS)?;
    for (facet, container) in &entries.entries {
        let entry = parameters![entries.tenant, facet, container, entries.created_at, number];
        execute(connection, INSERT_INDEX_ENTRY, &entry)?;
    }
    Ok(())
}

impl TransferEngine for SqliteTransfer {
    fn engine(&self) -> &'static str {
        "embedded"
    }

    fn schema(&self) -> u32 {
        self.schema
    }

    fn begin_reading(&mut self) -> StoreFuture<'_, ()> {
        let begin = |it: &Connection| it.execute_batch("BEGIN").map_err(store_error);
        Box::pin(async move { begin(&self.vault).and_then(|()| begin(&self.read_log)) })
    }

    fn end_reading(&mut self) -> StoreFuture<'_, ()> {
        let commit = |it: &Connection| it.execute_batch("COMMIT").map_err(store_error);
        Box::pin(async move { commit(&self.vault).and_then(|()| commit(&self.read_log)) })
    }

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let Some(SqliteTable { database, table, .. }) = SqliteTable::for_kind(kind) else {
                return Ok(0);
            };
            run_sync_future(query_number(self.connection(database), &table.count_statement(), &[]))
        })
    }

    fn count_index_entries(&mut self) -> StoreFuture<'_, u64> {
        let sql = "-- count_index_entries\nSELECT count(*) FROM token_index";
        Box::pin(async move { run_sync_future(query_number(&self.vault, sql, &[])) })
    }

    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            let Some(SqliteTable { database, table, .. }) = SqliteTable::for_kind(kind) else {
                return Ok(RowPage::default());
            };
            run_sync_future(read_page(self.connection(database), &table, kind, after, bounds))
        })
    }

    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>> {
        Box::pin(async move {
            match has_unfinished_import(&self.vault)? {
                true => run_sync_future(find_import_state(&self.vault)),
                false => Ok(None),
            }
        })
    }

    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let transaction = self.vault.transaction().map_err(store_error)?;
            transaction.execute_batch(CREATE_IMPORT_STATE).map_err(store_error)?;
            run_sync_future(insert_import_state(&*transaction, state))?;
            transaction.commit().map_err(store_error)
        })
    }

    /// The read log is a separate database. Its portion is written first. If the same portion is
    /// written again after a crash, its existing rows are skipped.
    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let table = SqliteTable::for_kind(portion.kind);
            let is_in = |it: &&SqliteTable, database| it.database == database;
            if let Some(table) = table.as_ref().filter(|it| is_in(it, TransferDatabase::ReadLog)) {
                let transaction = self.read_log.transaction().map_err(store_error)?;
                put_rows(&transaction, table, portion)?;
                transaction.commit().map_err(store_error)?;
            }
            let transaction = self.vault.transaction().map_err(store_error)?;
            if let Some(table) = table.as_ref().filter(|it| is_in(it, TransferDatabase::Vault)) {
                put_rows(&transaction, table, portion)?;
            }
            if !run_sync_future(advance_import_state(&*transaction, state))? {
                return Err(StoreError::Corrupt("the state of the import is unknown"));
            }
            transaction.commit().map_err(store_error)
        })
    }

    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let transaction = self.vault.transaction().map_err(store_error)?;
            if let Some(table) = SqliteTable::for_kind(keys.kind) {
                put_rows(&transaction, &table, keys)?;
            }
            transaction.execute_batch("DROP TABLE import_state").map_err(store_error)?;
            transaction.commit().map_err(store_error)
        })
    }
}
