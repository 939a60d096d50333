//! Errors of a store.

use std::{future::Future, pin::Pin};

use crate::error::{Error, ErrorCause};

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The error for a repeated request while the first one is in flight.
pub(crate) const IN_FLIGHT: &str =
    "the first request with this idempotency key is still being processed";

/// The error of a storage engine.
#[derive(Debug)]
pub enum StoreError {
    /// Too many writes are waiting; nothing was written.
    Busy,
    /// Another request with the same idempotency key completed first, possibly on another node;
    /// nothing was written.
    AlreadyCompleted,
    /// The engine did not respond. The outcome of a write is unknown: retry with the same
    /// idempotency key.
    Unavailable(ErrorCause),
    /// The engine returned data that the vault could not have written.
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable("the write queue is full".into()),
            StoreError::AlreadyCompleted => Self::Conflict { reason: IN_FLIGHT },
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(description) => Self::Internal(description.into()),
        }
    }
}
