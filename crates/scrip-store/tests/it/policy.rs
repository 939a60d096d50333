//! Tenants, applications, keys and access sessions.

mod access_sessions;
mod column_alterations;
mod directory;
pub(crate) mod harness;
mod key_timing;
mod row_alterations;
