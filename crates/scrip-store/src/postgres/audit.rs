//! The two logs and their chains.

pub(crate) mod access_log;
pub(crate) mod trail;
