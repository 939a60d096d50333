//! JSON of tenants, applications, access rules and access sessions.

pub mod access;
pub(crate) mod access_session;
pub mod application;
pub(crate) mod client_key;
pub mod tenant;
