//! Tenants, applications and API keys.

pub(crate) mod changes;
pub(crate) mod directory;
pub(crate) mod statements;
pub(crate) mod unlock_rows;
