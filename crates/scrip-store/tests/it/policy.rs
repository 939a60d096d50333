//! Tenants, applications, keys and access sessions.

mod access_sessions;
mod altered;
mod directory;
pub(crate) mod harness;
mod key_timing;
mod rows;
