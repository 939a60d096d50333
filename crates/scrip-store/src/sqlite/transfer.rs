//! The embedded engine, row by row, for [moving a vault](crate::transfer).

mod table;

use std::{fs::File, path::Path, time::Duration};

use rusqlite::{
    Connection, OptionalExtension, params_from_iter, types::ToSqlOutput, types::ValueRef,
};
use scrip_core::store::{StoreError, StoreFuture};
use uuid::Uuid;

use crate::{
    sqlite::{
        access::path_of,
        connection::{self, Kind as DatabaseKind},
        fault,
        tokens::execute,
        transfer::table::{Database, Table},
    },
    transfer::{
        Bounds, Form, Kind, Page, Portion, Row, Rows, State, Value, decode, encode, entries,
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

    fn read_page(
        &self,
        kind: Kind,
        after: Option<&[u8]>,
        bounds: Bounds,
    ) -> Result<Page, StoreError> {
        let table = Table::of(kind);
        let key = table.key;
        let after = after.map(|mut it| decode(key, &mut it).ok_or(NO_POSITION)).transpose()?;
        let connection = self.connection(table.database);
        let sql = table.list(kind, after.as_ref(), bounds.rows);
        let mut statement = connection.prepare_cached(&sql).map_err(fault)?;
        let parameters = after.iter().flatten().map(bound);
        let mut rows = statement.query(params_from_iter(parameters)).map_err(fault)?;
        let (mut page, mut bytes) = (Page::default(), 0_usize);
        while let Some(row) = rows.next().map_err(fault)? {
            let read = |(at, form): (usize, Form)| value(row.get_ref(at).map_err(fault)?, form);
            let forms = key.iter().chain(kind.columns()).map(|it| it.form);
            let mut values: Row = forms.enumerate().map(read).collect::<Result<_, _>>()?;
            let rest = values.split_off(key.len());
            page.position.clear();
            encode(key, &values, &mut page.position).ok_or(NOT_OURS)?;
            bytes = bytes.saturating_add(length(&rest));
            page.rows.push(rest);
            if bytes >= bounds.bytes {
                break;
            }
        }
        Ok(page)
    }

    fn find_state(&self) -> Result<Option<State>, StoreError> {
        if !is_importing(&self.vault)? {
            return Ok(None);
        }
        let state = |row: &rusqlite::Row<'_>| {
            let portions = row.get::<_, i64>(1)?.unsigned_abs();
            Ok(State { file: row.get(0)?, portions, sum: row.get(2)? })
        };
        self.vault.query_row(FIND_STATE, [], state).map(Some).map_err(fault)
    }

    fn begin_import(&mut self, state: State) -> Result<(), StoreError> {
        let transaction = self.vault.transaction().map_err(fault)?;
        transaction.execute_batch(CREATE_STATE).map_err(fault)?;
        execute(&transaction, BEGIN_IMPORT, (state.file, state.sum))?;
        transaction.commit().map_err(fault)
    }

    /// The access log is another database. Its portion is written first; one that comes again after
    /// a crash finds its rows there.
    fn put_portion(&mut self, portion: &Portion, state: State) -> Result<(), StoreError> {
        let table = Table::of(portion.kind);
        if table.database == Database::Access {
            let transaction = self.access.transaction().map_err(fault)?;
            put_rows(&transaction, &table, portion)?;
            transaction.commit().map_err(fault)?;
        }
        let transaction = self.vault.transaction().map_err(fault)?;
        if table.database == Database::Vault {
            put_rows(&transaction, &table, portion)?;
        }
        let portions = i64::try_from(state.portions).unwrap_or(i64::MAX);
        let moved = execute(&transaction, MOVE_ON, (state.file, portions, state.sum))?;
        if moved != 1 {
            return Err(StoreError::Corrupt("how far the import has come is not known"));
        }
        transaction.commit().map_err(fault)
    }

    fn finish_import(&mut self, keys: &Portion) -> Result<(), StoreError> {
        let transaction = self.vault.transaction().map_err(fault)?;
        put_rows(&transaction, &Table::of(keys.kind), keys)?;
        transaction.execute_batch("DROP TABLE import_state").map_err(fault)?;
        transaction.commit().map_err(fault)
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

const BEGIN_IMPORT: &str = "
-- begin_import
INSERT INTO import_state (one, file, portions, sum) VALUES (1, ?1, 0, ?2)";

const FIND_STATE: &str = "
-- find_import_state
SELECT file, portions, sum FROM import_state WHERE one = 1";

const MOVE_ON: &str = "
-- move_on
UPDATE import_state SET portions = ?2, sum = ?3 WHERE file = ?1 AND portions = ?2 - 1";

/// Whether an import into this vault has not ended.
pub(super) fn is_importing(vault: &Connection) -> Result<bool, StoreError> {
    let found = vault.query_row(FIND_IMPORT, [], |_| Ok(())).optional();
    found.map(|it| it.is_some()).map_err(fault)
}

const NO_POSITION: StoreError = StoreError::Corrupt("a position is not one of this engine");
const NOT_OURS: StoreError = StoreError::Corrupt("a row does not have the columns we wrote");

fn value(found: ValueRef<'_>, form: Form) -> Result<Value, StoreError> {
    Ok(match (found, form) {
        (ValueRef::Null, _) => Value::Nothing,
        (ValueRef::Blob(bytes), Form::Id) => {
            Value::Id(Uuid::from_slice(bytes).map_err(|_| NOT_OURS)?)
        }
        (ValueRef::Blob(bytes), Form::Bytes) => Value::Bytes(bytes.to_owned()),
        (ValueRef::Integer(number), Form::Number) => Value::Number(number),
        (ValueRef::Text(text), Form::Text) => {
            Value::Text(str::from_utf8(text).map_err(|_| NOT_OURS)?.to_owned())
        }
        (_, Form::Id | Form::Number | Form::Text | Form::Bytes) => return Err(NOT_OURS),
    })
}

fn bound(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Nothing => ValueRef::Null,
        Value::Id(id) => ValueRef::Blob(id.as_bytes()),
        Value::Number(number) => ValueRef::Integer(*number),
        Value::Text(text) => ValueRef::Text(text.as_bytes()),
        Value::Bytes(bytes) => ValueRef::Blob(bytes),
    })
}

/// About what a row takes.
fn length(row: &Row) -> usize {
    let of_one = |it: &Value| match it {
        Value::Nothing => 1,
        Value::Id(_) | Value::Number(_) => 16,
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
    };
    row.iter().map(of_one).fold(0, usize::saturating_add)
}

fn put_rows(connection: &Connection, table: &Table, portion: &Portion) -> Result<(), StoreError> {
    let kind = portion.kind;
    if kind.is_single() {
        connection.execute_batch(&table.clear()).map_err(fault)?;
    }
    let sql = table.insert(kind);
    let mut statement = connection.prepare_cached(&sql).map_err(fault)?;
    for (number, row) in portion.numbers().zip(&portion.page.rows) {
        let number = (kind == Kind::Tokens).then_some(Value::Number(number));
        let parameters = row.iter().chain(&number).map(bound);
        let put = statement.execute(params_from_iter(parameters)).map_err(fault)?;
        if put != 1 && table.database == Database::Vault {
            return Err(StoreError::Corrupt(
                "a row has no place, for what it belongs to is missing",
            ));
        }
        if let Some(number) = number {
            file(connection, &number, row)?;
        }
    }
    Ok(())
}

const FILE: &str = "
-- file
INSERT INTO filed (tenant, facet, container, created_at, token) VALUES (?1, ?2, ?3, ?4, ?5)";

/// The entries by which a token is found.
fn file(connection: &Connection, number: &Value, row: &Row) -> Result<(), StoreError> {
    let entries = entries(row).ok_or(NOT_OURS)?;
    for (facet, container) in &entries.all {
        let tenant = entries.tenant.0.as_bytes();
        let number = bound(number);
        execute(connection, FILE, (tenant, facet, container, entries.created_at, number))?;
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
            let table = Table::of(kind);
            count(self.connection(table.database), &table.count())
        })
    }

    fn count_entries(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(async move { count(&self.vault, "-- count_entries\nSELECT count(*) FROM filed") })
    }

    fn page<'a>(
        &'a mut self,
        kind: Kind,
        after: Option<&'a [u8]>,
        bounds: Bounds,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move { self.read_page(kind, after, bounds) })
    }

    fn begun(&mut self) -> StoreFuture<'_, Option<State>> {
        Box::pin(async move { self.find_state() })
    }

    fn begin(&mut self, state: State) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.begin_import(state) })
    }

    fn put<'a>(&'a mut self, portion: &'a Portion, state: State) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.put_portion(portion, state) })
    }

    fn finish<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.finish_import(keys) })
    }
}

fn count(connection: &Connection, sql: &str) -> Result<u64, StoreError> {
    let found: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(fault)?;
    Ok(found.unsigned_abs())
}
