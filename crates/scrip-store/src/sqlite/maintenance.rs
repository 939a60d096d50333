//! Background work and operator commands.

pub mod backup;
mod backup_schema;
pub(crate) mod deliveries;
pub(crate) mod expiry;
mod guesses;
mod idempotency;
pub(crate) mod key_rotations;
mod status;
mod usage;
