//! Conversion of PostgreSQL errors.

use scrip_core::store::StoreError;
use tokio_postgres::error::SqlState;

pub(crate) fn unavailable(message: &'static str) -> StoreError {
    StoreError::Unavailable(message.into())
}

/// Converts an error without the server's message, which may quote a value. The error code never
/// does.
pub(crate) fn store_error(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy,
        Some(code) => StoreError::Unavailable(format!("PostgreSQL error {}", code.code()).into()),
        None => unavailable("PostgreSQL did not respond"),
    }
}
