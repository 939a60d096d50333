//! Tenants, applications, API keys and their rights.

mod access_session_rights;
mod access_sessions;
mod api_keys;
mod applications;
mod coverage;
pub(crate) mod operation_calls;
mod permission_table;
mod permissions;
pub(crate) mod proxies;
mod recorded_deletion;
mod rejections;
mod resources;
mod rules;
mod sealed_start;
mod tenant;
