//! What both engines do alike: the statements that both take, how rows and records are made of each
//! other, and the rules of every write. An engine fetches and puts; what is decided is decided here.

pub(crate) mod answers;
pub(crate) mod audit;
pub(crate) mod policy;
pub(crate) mod session_cards;
pub(crate) mod status;
pub(crate) mod time;
pub(crate) mod tokens;
pub(crate) mod usage;

use scrip_core::store::StoreError;

/// The same for everybody who shared a transaction.
pub(crate) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Busy,
        StoreError::Answered => StoreError::Answered,
        StoreError::Unavailable(cause) => StoreError::Unavailable(cause.to_string().into()),
        StoreError::Corrupt(what) => StoreError::Corrupt(what),
    }
}
