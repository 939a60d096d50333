//! Commands that write a vault to a file or read it from one.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod restore;
