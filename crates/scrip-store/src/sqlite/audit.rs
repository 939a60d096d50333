//! The audit log, the read log and their hash chains.

pub(crate) mod read_deliveries;
pub(crate) mod read_log;
pub mod verify;
