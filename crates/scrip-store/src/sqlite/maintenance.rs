//! What no request waits for, and what an operator asks for.

pub mod backup;
pub(crate) mod expiry;
mod guesses;
mod idempotency;
mod status;
pub(crate) mod usage;
