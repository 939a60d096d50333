//! Code that both engines share: common statements, conversion between rows and records, and the
//! rules of every write. An engine reads and writes rows; the decisions are made here.

pub(crate) mod clock_watermark;
pub(crate) mod deliveries;
pub(crate) mod idempotency;
pub(crate) mod key_rotations;
pub(crate) mod log;
pub(crate) mod policy;
pub(crate) mod session_cards;
pub(crate) mod status;
pub(crate) mod tokens;
pub(crate) mod usage;

use scrip_core::types::StoreError;

/// Copies an error for all writes that shared a transaction.
pub(crate) fn clone_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Busy,
        StoreError::AlreadyCompleted => StoreError::AlreadyCompleted,
        StoreError::Unavailable(cause) => StoreError::Unavailable(cause.to_string().into()),
        StoreError::Corrupt(reason) => StoreError::Corrupt(reason),
    }
}
