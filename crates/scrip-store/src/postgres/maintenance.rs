//! Background work and operator commands.

mod deliveries;
mod expiry;
mod guesses;
mod idempotency;
mod key_rotations;
mod status;
mod usage;
