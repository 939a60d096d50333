//! Runs statements of shared code on a SQLite connection, and reads the error codes of SQLite.

use std::{error::Error, fmt};

use rusqlite::{
    CachedStatement, Connection, ErrorCode, Row,
    ffi::{
        SQLITE_CANTOPEN, SQLITE_CONSTRAINT_UNIQUE, SQLITE_FULL, SQLITE_IOERR, SQLITE_IOERR_SHMSIZE,
        SQLITE_READONLY,
    },
    params_from_iter,
    types::ValueRef,
};
use scrip_core::{store::StoreCondition, types::StoreError};
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
        let mut decoded = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            decoded.push(decode(row)?);
        }
        Ok(decoded)
    }
}

impl Execute for Connection {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        execute(self, sql, parameters)
    }
}

/// Executes a statement and returns the number of changed rows.
pub(crate) fn execute(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<usize, StoreError> {
    prepare(connection, sql)?.execute(params_from_iter(parameters)).map_err(store_error)
}

/// Inserts a row and returns its number.
pub(crate) fn insert(
    connection: &Connection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<i64, StoreError> {
    prepare(connection, sql)?.insert(params_from_iter(parameters)).map_err(store_error)
}

/// Inserts a row and returns its number; `None` if a unique constraint failed.
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

/// Inserts a row and returns whether its unique values were free. Any other constraint violation is
/// an error.
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

/// Writes a row once for all writes of a commit. If the file was altered so that the row cannot be
/// written, that must not stop all writes: the failure is logged and the row stays as it is.
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
        result => result.map(drop).map_err(store_error),
    }
}

fn is_constraint_violation(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Runs work in a read transaction in which all statements see the same snapshot.
pub(crate) fn with_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(store_error)?;
    let result = read();
    // This is a read transaction: commit and rollback have the same effect.
    snapshot.finish().map_err(store_error)?;
    result
}

/// Converts an error without SQLite's message, which may quote a value. The error code never does.
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error() {
        Some(error) => {
            StoreError::Unavailable(SqliteFailure { extended_code: error.extended_code }.into())
        }
        None => MISSING_COLUMNS,
    }
}

/// An extended error code of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SqliteFailure {
    pub(crate) extended_code: i32,
}

impl fmt::Display for SqliteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLite error {}", self.extended_code)?;
        match self.condition() {
            Some(StoreCondition::DiskFull) => f.write_str(" (the disk is full)"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Error for SqliteFailure {}

impl SqliteFailure {
    /// Returns the code in an error of a statement.
    pub(crate) fn find(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Unavailable(cause) => cause.downcast_ref().copied(),
            StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Corrupt(_) => None,
        }
    }

    /// Returns the condition of the storage after a statement failed with this code. `None` if the
    /// failure says nothing about the storage.
    pub(crate) fn condition(self) -> Option<StoreCondition> {
        // The shared memory file of the WAL cannot grow.
        if self.extended_code == SQLITE_IOERR_SHMSIZE {
            return Some(StoreCondition::DiskFull);
        }
        // The lowest byte is the primary code.
        match self.extended_code & 0xff {
            SQLITE_FULL => Some(StoreCondition::DiskFull),
            SQLITE_IOERR | SQLITE_READONLY | SQLITE_CANTOPEN => Some(StoreCondition::CommitFailed),
            _ => None,
        }
    }
}

fn prepare<'a>(connection: &'a Connection, sql: &str) -> Result<CachedStatement<'a>, StoreError> {
    let statement = connection.prepare_cached(sql).map_err(store_error)?;
    debug_assert!(has_ordered_parameters(&statement), "parameters are not in order: {sql}");
    Ok(statement)
}

/// Whether each parameter has the number in its name. SQLite reads `$1` as a name and numbers names
/// by first appearance.
fn has_ordered_parameters(statement: &CachedStatement<'_>) -> bool {
    (1..=statement.parameter_count()).all(|index| {
        let name = statement.parameter_name(index);
        name.is_some_and(|it| it.trim_start_matches(['$', '?']) == index.to_string())
    })
}

impl ColumnReader for Row<'_> {
    fn uuid(&self, index: usize) -> Result<Option<Uuid>, StoreError> {
        let to_uuid = |it: &[u8]| Uuid::from_slice(it).map_err(|_| MISSING_COLUMNS);
        self.bytes(index)?.map(to_uuid).transpose()
    }

    fn number(&self, index: usize) -> Result<Option<i64>, StoreError> {
        self.get(index).map_err(store_error)
    }

    fn text(&self, index: usize) -> Result<Option<&str>, StoreError> {
        self.get_ref(index).map_err(store_error)?.as_str_or_null().map_err(|_| MISSING_COLUMNS)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.get_ref(index).map_err(store_error)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => Err(MISSING_COLUMNS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{parameters, read_required, run_sync_future};

    fn query_sum(sql: &str) -> Result<Option<i64>, StoreError> {
        let connection = Connection::open_in_memory().unwrap();
        run_sync_future(
            connection.find(sql, &parameters![20_i64, 1_i64], |row| read_required(row, 0)),
        )
    }

    #[test]
    fn shared_statement_parameters_are_bound_by_their_numbers() {
        assert_eq!(query_sum("SELECT $1 - $2 + $1").unwrap(), Some(39));
        assert_eq!(query_sum("SELECT ?1 - ?2 + ?1").unwrap(), Some(39));
    }

    #[test]
    #[should_panic(expected = "parameters are not in order")]
    fn statement_with_parameters_out_of_order_is_rejected() {
        drop(query_sum("SELECT $2 - $1"));
    }

    #[test]
    fn only_failures_of_the_file_system_change_the_condition() {
        use StoreCondition::{CommitFailed, DiskFull};
        let cases = [
            (13, Some(DiskFull)),
            (4874, Some(DiskFull)),
            (10, Some(CommitFailed)),
            (778, Some(CommitFailed)),
            (1032, Some(CommitFailed)),
            (14, Some(CommitFailed)),
            (5, None),
            (2067, None),
        ];
        for (extended_code, expected) in cases {
            let error = StoreError::Unavailable(SqliteFailure { extended_code }.into());
            let condition = SqliteFailure::find(&error).and_then(SqliteFailure::condition);
            assert_eq!(condition, expected, "{extended_code}");
        }
    }
}
