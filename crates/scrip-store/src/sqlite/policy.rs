//! Tenants, applications and API keys.

mod changes;
pub(crate) mod directory;
mod purge;
