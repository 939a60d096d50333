//! The two logs and their chains.

pub(crate) mod read_log;
pub mod verify;
