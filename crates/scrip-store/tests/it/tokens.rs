//! Token storage: the same guarantees on every engine.

mod batch;
mod conformance;
mod duplicates;
mod expiry;
mod guesses;
mod idempotency;
pub(crate) mod random_operations;
mod usage;
