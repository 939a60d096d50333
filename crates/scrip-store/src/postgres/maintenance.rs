//! What no request waits for, and what an operator asks for.

mod expiry;
mod guesses;
pub(crate) mod idempotency;
mod status;
pub(crate) mod usage;
