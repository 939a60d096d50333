//! What can go wrong in a store.

use std::{future::Future, pin::Pin};

use crate::error::{Error, ErrorCause};

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// To whoever asks a second time while the first is not answered yet.
pub(crate) const IN_FLIGHT: &str =
    "the first request with this idempotency key is still being processed";

#[derive(Debug)]
pub enum StoreError {
    /// Too many writes are waiting; nothing was done.
    Busy,
    /// Somebody else answered this request first, perhaps on another node; nothing was done.
    AlreadyCompleted,
    /// The engine did not answer. For a write nobody knows what became of it: ask again with the
    /// same idempotency key.
    Unavailable(ErrorCause),
    /// The engine answered with something we could not have written.
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable("the write queue is full".into()),
            StoreError::AlreadyCompleted => Self::Conflict { reason: IN_FLIGHT },
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(what) => Self::Internal(what.into()),
        }
    }
}
