//! Store traits whose methods are the same in both engines.

mod access_sessions;
mod idempotency;
mod listing;
mod logs;
mod policy;
pub(crate) mod threeds_sessions;
mod token_intents;
mod usage;
