//! Store traits whose methods are the same in both engines.

mod access_sessions;
mod answers;
mod listing;
mod logs;
mod policy;
pub(crate) mod sessions;
mod token_intents;
mod usage;
