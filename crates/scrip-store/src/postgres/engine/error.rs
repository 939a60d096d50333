//! Conversion of PostgreSQL errors.

use std::{error::Error, fmt};

use scrip_core::{store::StoreCondition, types::StoreError};
use tokio_postgres::error::SqlState;

pub(crate) fn unavailable(message: &'static str) -> StoreError {
    StoreError::Unavailable(message.into())
}

/// Converts an error without the server's message, which may quote a value. The error code never
/// does.
pub(crate) fn store_error(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy,
        Some(code) => StoreError::Unavailable(PostgresFailure(code.clone()).into()),
        None => unavailable("PostgreSQL did not respond"),
    }
}

/// An error code of PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresFailure(SqlState);

impl fmt::Display for PostgresFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL error {}", self.0.code())?;
        if self.0 == SqlState::INSUFFICIENT_PRIVILEGE {
            f.write_str(" (this role lacks a right; init and migrate need the role of the owner)")?;
        }
        Ok(())
    }
}

impl Error for PostgresFailure {}

/// PostgreSQL did not respond to a statement in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseTimeout;

impl fmt::Display for ResponseTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgreSQL did not respond in time")
    }
}

impl Error for ResponseTimeout {}

/// Returns the condition of the storage after a write failed with this error. `None` if the error
/// says nothing about the storage; the probe notices a server that does not respond.
pub(crate) fn failed_write_condition(error: &StoreError) -> Option<StoreCondition> {
    let StoreError::Unavailable(cause) = error else { return None };
    // The server still reads, but a commit waits without end: for example for a synchronous standby
    // that is away. The probe notices a server that does not respond at all earlier.
    if cause.is::<ResponseTimeout>() {
        return Some(StoreCondition::CommitFailed);
    }
    let PostgresFailure(code) = cause.downcast_ref()?;
    let is_any = |codes: &[SqlState]| codes.contains(code);
    if is_any(&[SqlState::DISK_FULL]) {
        return Some(StoreCondition::DiskFull);
    }
    is_any(&[SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::IO_ERROR])
        .then_some(StoreCondition::CommitFailed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_of_the_disk_change_the_condition() {
        let cases = [
            ("53100", Some(StoreCondition::DiskFull)),
            ("25006", Some(StoreCondition::CommitFailed)),
            ("58030", Some(StoreCondition::CommitFailed)),
            ("23505", None),
            ("57P01", None),
        ];
        for (code, expected) in cases {
            let failure = PostgresFailure(SqlState::from_code(code));
            let error = StoreError::Unavailable(failure.into());
            assert_eq!(failed_write_condition(&error), expected, "{code}");
        }
        assert_eq!(failed_write_condition(&unavailable("no response")), None);
        let timeout = StoreError::Unavailable(ResponseTimeout.into());
        assert_eq!(failed_write_condition(&timeout), Some(StoreCondition::CommitFailed));
    }
}
