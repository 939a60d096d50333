//! Tenants, applications and API keys.

mod changes;
mod directory;
pub(crate) mod purge;
