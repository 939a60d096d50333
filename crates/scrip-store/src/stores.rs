//! Store traits with the same implementation for both engines.

pub(crate) mod access_sessions;
mod approvals;
mod both_engines;
mod deliveries;
mod idempotency;
mod key_rotations;
mod listing;
mod logs;
mod policy;
mod threeds_sessions;
mod token_intents;
mod unlocks;
mod usage;
