//! Commands that change tenants, applications, keys, proxies and access sessions.

pub(crate) mod access_session;
pub(crate) mod application;
pub(crate) mod key;
pub(crate) mod proxy;
pub(crate) mod restore;
pub(crate) mod tenant;
pub(crate) mod webhook;
