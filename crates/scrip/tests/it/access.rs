//! Tenants, applications, keys, and what they may do.

mod access_session_rights;
mod access_sessions;
mod api_keys;
mod applications;
mod authority;
pub(crate) mod calls;
mod coverage;
mod list_applications;
mod permissions;
mod rules;
mod tenant;
