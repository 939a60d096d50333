//! Tenants, applications, keys, proxies, webhooks, client encryption keys and access sessions.

pub(crate) mod access_sessions;
mod approvals;
mod client_keys;
mod column_alterations;
mod decisions;
mod directory;
pub(crate) mod entity_alterations;
pub(crate) mod harness;
mod key_timing;
mod proxies;
mod row_alterations;
mod tables;
pub(crate) mod unlocks;
mod webhooks;
