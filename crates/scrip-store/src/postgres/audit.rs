//! The audit log, the read log and their hash chains.

mod active_tokens;
pub(crate) mod read_log;
pub(crate) mod verify;
