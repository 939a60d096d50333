//! Background work and operator commands.

mod deliveries;
mod expiry;
mod guesses;
pub(crate) mod idempotency;
mod key_rotations;
mod status;
pub(crate) mod usage;
