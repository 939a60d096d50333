//! Statements on a connection of the embedded engine, as shared code runs them.

use rusqlite::{
    CachedStatement, Connection, ErrorCode, Row, ffi::SQLITE_CONSTRAINT_UNIQUE, params_from_iter,
    types::ValueRef,
};
use scrip_core::store::StoreError;
use uuid::Uuid;

use crate::sql::{ColumnReader, Execute, MISSING_COLUMNS, Parameter, Statements};

impl Statements for Connection {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = prepare(self, sql)?;
        let mut rows = statement.query(params_from_iter(parameters)).map_err(store_error)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            found.push(decode(row)?);
        }
        Ok(found)
    }
}

impl Execute for Connection {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        execute(self, sql, parameters)
    }
}

/// How many rows a statement changed.
pub(crate) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<usize, StoreError> {
    prepare(connection, sql)?.execute(params_from_iter(parameters)).map_err(store_error)
}

/// The number of a new row.
pub(crate) fn insert(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<i64, StoreError> {
    prepare(connection, sql)?.insert(params_from_iter(parameters)).map_err(store_error)
}

/// The number of a new row; nothing where another row has what must be unique.
pub(crate) fn try_insert(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<i64>, StoreError> {
    match prepare(connection, sql)?.insert(params_from_iter(parameters)) {
        Ok(number) => Ok(Some(number)),
        Err(error) if is_constraint_violation(&error) => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}

/// Whether a row had no number or key that another row has. Any other conflict is an error.
pub(crate) fn try_insert_unique(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<bool, StoreError> {
    match prepare(connection, sql)?.execute(params_from_iter(parameters)) {
        Ok(_) => Ok(true),
        Err(error) if is_unique_violation(&error) => Ok(false),
        Err(error) => Err(store_error(error)),
    }
}

fn is_unique_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|it| it.extended_code == SQLITE_CONSTRAINT_UNIQUE)
}

/// What is put once for all who share a commit. Where somebody altered the file so that it cannot be,
/// that must not stop everybody: it is told, and left as it is.
pub(crate) fn put_or_report(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
    report: impl FnOnce(),
) -> Result<(), StoreError> {
    match prepare(connection, sql)?.execute(params_from_iter(parameters)) {
        Err(error) if is_constraint_violation(&error) => {
            report();
            Ok(())
        }
        put => put.map(drop).map_err(store_error),
    }
}

fn is_constraint_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Statements inside see the database as the first of them does.
pub(crate) fn with_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(store_error)?;
    let result = read();
    // Nothing was written; ending it either way is the same.
    snapshot.finish().map_err(store_error)?;
    result
}

/// The engine's own message may quote a value; its code never does.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error() {
        Some(error) => {
            StoreError::Unavailable(format!("SQLite error {}", error.extended_code).into())
        }
        None => MISSING_COLUMNS,
    }
}

fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
    let statement = connection.prepare_cached(sql).map_err(store_error)?;
    debug_assert!(has_ordered_parameters(&statement), "parameters are not in order: {sql}");
    Ok(statement)
}

/// Whether each parameter has the number that its name says. The engine takes `$1` for a name, and
/// numbers names by their first appearance.
fn has_ordered_parameters(statement: &CachedStatement<'_>) -> bool {
    (1..=statement.parameter_count()).all(|at| {
        let name = statement.parameter_name(at);
        name.is_some_and(|it| it.trim_start_matches(['$', '?']) == at.to_string())
    })
}

impl ColumnReader for Row<'_> {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        let uuid = |it: &[u8]| Uuid::from_slice(it).map_err(|_| MISSING_COLUMNS);
        self.bytes(at)?.map(uuid).transpose()
    }

    fn number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        self.get(at).map_err(store_error)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        self.get_ref(at).map_err(store_error)?.as_str_or_null().map_err(|_| MISSING_COLUMNS)
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.get_ref(at).map_err(store_error)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => Err(MISSING_COLUMNS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{parameters, required, run_ready};

    fn sum(sql: &str) -> Result<Option<i64>, StoreError> {
        let connection = Connection::open_in_memory().unwrap();
        run_ready(connection.find(sql, &parameters![20_i64, 1_i64], |row| required(row, 0)))
    }

    #[test]
    fn shared_statement_parameters_are_bound_by_their_numbers() {
        assert_eq!(sum("SELECT $1 - $2 + $1").unwrap(), Some(39));
        assert_eq!(sum("SELECT ?1 - ?2 + ?1").unwrap(), Some(39));
    }

    #[test]
    #[should_panic(expected = "parameters are not in order")]
    fn statement_with_parameters_out_of_order_is_rejected() {
        drop(sum("SELECT $2 - $1"));
    }
}
