//! Background work and operator commands.

mod deliveries;
pub(crate) mod expiry;
mod guesses;
mod idempotency;
mod key_rotations;
mod status;
mod usage;
