//! Errors of a store.

use std::{future::Future, pin::Pin};

use crate::{Error, types::error::ErrorCause};

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The error for a repeated request while the first one is in flight.
pub(crate) const IN_FLIGHT: &str =
    "the first request with this idempotency key is still being processed";

/// The error of a storage engine.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too many writes are waiting, or the wait for a lock or a connection took too long; nothing was
    /// written.
    #[error(
        "the write queue is full, or an earlier write or the wait for a connection took too long"
    )]
    Busy,
    /// Another request with the same idempotency key completed first, possibly on another node;
    /// nothing was written.
    #[error("another request with this idempotency key completed first")]
    AlreadyCompleted,
    /// The engine did not respond. The outcome of a write is unknown: retry with the same
    /// idempotency key.
    #[error("{0}")]
    Unavailable(ErrorCause),
    /// The engine returned data that the vault could not have written.
    #[error("{0}")]
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable(error.into()),
            StoreError::AlreadyCompleted => Self::Conflict { reason: IN_FLIGHT },
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(description) => Self::Internal(description.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_store_error_names_the_cause() {
        let cases = [
            (
                StoreError::Busy,
                "the write queue is full, or an earlier write or the wait for a connection took too \
                 long",
            ),
            (StoreError::Unavailable("SQLite error 13".into()), "SQLite error 13"),
            (StoreError::Corrupt("the head is missing"), "the head is missing"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
            assert_eq!(Error::from(error).cause_text(), expected);
        }
    }
}
