//! Error codes of SQLite, and which of them mean that the storage has failed.

use std::{error::Error, fmt};

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR, SQLITE_IOERR_SHMSIZE, SQLITE_READONLY,
};
use scrip_core::{store::StoreCondition, types::StoreError};

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

#[cfg(test)]
mod tests {
    use super::*;

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
