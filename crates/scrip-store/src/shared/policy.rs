//! Tenants, applications and API keys.

pub(crate) mod approvals;
pub(crate) mod changes;
pub(crate) mod deletions;
pub(crate) mod directory;
pub(crate) mod restore;
pub(crate) mod statements;
pub(crate) mod unlock_rows;
pub(crate) mod unlocks;
