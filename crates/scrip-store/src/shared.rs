//! What both engines do alike: the statements that both take, how rows and records are made of each
//! other, and the rules of every write. An engine fetches and puts; what is decided is decided here.

pub(crate) mod audit;
pub(crate) mod clock_watermark;
pub(crate) mod idempotency;
pub(crate) mod policy;
pub(crate) mod session_cards;
pub(crate) mod status;
pub(crate) mod tokens;
pub(crate) mod usage;

use scrip_core::store::StoreError;

/// The same for everybody who shared a transaction.
pub(crate) fn clone_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Busy,
        StoreError::AlreadyCompleted => StoreError::AlreadyCompleted,
        StoreError::Unavailable(cause) => StoreError::Unavailable(cause.to_string().into()),
        StoreError::Corrupt(what) => StoreError::Corrupt(what),
    }
}
