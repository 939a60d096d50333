//! The schema of a backup. SQL in the schema of a file (views, triggers, generated columns) runs when
//! the file is read, so a backup is read only if its schema is exactly that of a vault.

use std::collections::BTreeMap;

use rusqlite::Connection;
use scrip_core::types::StoreError;

use crate::sqlite::engine::{
    connection::{DatabaseKind, run_migrations},
    statement::store_error,
};

/// The read log is a separate database. The copy contains its tables under other names: (name in
/// the read log, name in the copy).
pub const READ_LOG_TABLES: [(&str, &str); 6] = [
    ("log_records", "read_log_records"),
    ("chain_heads", "read_log_heads"),
    ("chain_checkpoints", "read_log_checkpoints"),
    ("active_tokens", "active_tokens"),
    ("active_months", "active_months"),
    ("read_deliveries", "read_deliveries"),
];

/// The tables of a read log with these migrations.
pub(crate) fn read_log_tables(
    migrations: usize,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let has_table = move |(name, _): &(&str, &str)| *name != "read_deliveries" || migrations >= 4;
    READ_LOG_TABLES.into_iter().filter(has_table)
}

/// Disables functions with side effects in the schema and checks the structure of each page.
pub(crate) const EXAMINE_PRAGMAS: &str = "
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA query_only = ON;
";

/// A table, an index, a view or a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaObject {
    pub(crate) kind: String,
    pub(crate) name: String,
    table: String,
    /// `None` for an index that SQLite creates for a constraint.
    pub(crate) sql: Option<String>,
}

const LIST_SCHEMA: &str = "
-- list_schema
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid";

const LIST_TEMPORARY_SCHEMA: &str = "
-- list_temporary_schema
SELECT type, name, tbl_name, sql FROM sqlite_temp_schema ORDER BY rowid";

fn list_objects(connection: &Connection, sql: &str) -> Result<Vec<SchemaObject>, StoreError> {
    let mut statement = connection.prepare(sql).map_err(store_error)?;
    let rows = statement.query_map([], |row| {
        Ok(SchemaObject {
            kind: row.get(0)?,
            name: row.get(1)?,
            table: row.get(2)?,
            sql: row.get(3)?,
        })
    });
    rows.and_then(Iterator::collect).map_err(store_error)
}

/// The objects that these migrations create in a vault, in the order of their creation.
pub(crate) fn list_vault_objects(migrations: usize) -> Result<Vec<SchemaObject>, StoreError> {
    list_objects(&migrated_database(DatabaseKind::Vault, migrations)?, LIST_SCHEMA)
}

fn migrated_database(kind: DatabaseKind, migrations: usize) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory().map_err(store_error)?;
    run_migrations(&connection, kind, migrations)?;
    Ok(connection)
}

/// The tables of the read log in a backup. SQLite writes their SQL text.
fn list_read_log_objects(migrations: usize) -> Result<Vec<SchemaObject>, StoreError> {
    let connection = migrated_database(DatabaseKind::ReadLog, migrations)?;
    for (name, copy_name) in read_log_tables(migrations) {
        let sql = format!("CREATE TEMPORARY TABLE {copy_name} AS SELECT * FROM main.{name}");
        connection.execute_batch(&sql).map_err(store_error)?;
    }
    list_objects(&connection, LIST_TEMPORARY_SCHEMA)
}

/// Checks that a backup has the objects of a vault with these migrations, and no others.
/// Errors: an object is missing, additional or different. The error names it.
pub(crate) fn check_backup_schema(
    connection: &Connection,
    migrations: usize,
) -> Result<(), StoreError> {
    let mut expected_objects = list_vault_objects(migrations)?;
    expected_objects.extend(list_read_log_objects(migrations)?);
    let mut expected_objects: BTreeMap<_, _> =
        expected_objects.into_iter().map(|it| (it.name.clone(), it)).collect();
    // A removed expectation also rejects a second object with the same name.
    for object in list_objects(connection, LIST_SCHEMA)? {
        let expected = expected_objects.remove(&object.name);
        if expected.is_none_or(|it| !is_same_object(&it, &object)) {
            return Err(wrong_object(&object.name));
        }
    }
    expected_objects.keys().next().map_or(Ok(()), |name| Err(wrong_object(name)))
}

/// SQLite formats the text of the tables of the read log, so white space in it has no meaning.
fn is_same_object(expected: &SchemaObject, object: &SchemaObject) -> bool {
    if !READ_LOG_TABLES.iter().any(|(_, copy_name)| *copy_name == expected.name) {
        return expected == object;
    }
    let compact_text = |it: &SchemaObject| -> Option<String> {
        Some(it.sql.as_ref()?.split_whitespace().collect())
    };
    (&expected.kind, &expected.table) == (&object.kind, &object.table)
        && compact_text(expected) == compact_text(object)
}

fn wrong_object(name: &str) -> StoreError {
    let message = format!(
        "its schema is not that of a vault: {} is not as in a vault. Another program altered the \
         file; use another backup",
        name.escape_debug()
    );
    StoreError::Unavailable(message.into())
}
