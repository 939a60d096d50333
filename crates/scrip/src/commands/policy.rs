//! Commands that change tenants, applications, keys and access sessions.

pub(crate) mod access_session;
pub(crate) mod application;
pub(crate) mod key;
pub(crate) mod tenant;
