//! Background work and operator commands.

pub mod backup;
pub(crate) mod expiry;
mod guesses;
mod idempotency;
mod status;
pub(crate) mod usage;
