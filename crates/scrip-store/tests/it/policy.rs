//! Tenants, applications, keys, proxies, webhooks, client encryption keys and access sessions.

mod access_sessions;
mod approvals;
mod client_keys;
mod column_alterations;
mod decisions;
mod directory;
mod entity_alterations;
pub(crate) mod harness;
mod key_timing;
mod proxies;
mod row_alterations;
pub(crate) mod unlocks;
mod webhooks;
