//! Background work and operator commands.

mod deliveries;
mod expiry;
mod guesses;
pub(crate) mod idempotency;
mod status;
pub(crate) mod usage;
