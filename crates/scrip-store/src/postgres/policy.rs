//! Tenants, applications and API keys.

mod changes;
mod directory;
mod purge;
