//! JSON of tenants, applications, access rules and access sessions.

pub mod access;
pub mod application;
pub(crate) mod session;
pub mod tenant;
pub(crate) mod usage;
