//! One function per route: it parses the request, calls one operation and renders the outcome.

pub(crate) mod access_sessions;
pub(crate) mod api_keys;
pub(crate) mod applications;
pub(crate) mod catalogs;
pub(crate) mod logs;
pub(crate) mod notifications;
pub(crate) mod pages;
pub mod probes;
pub(crate) mod proxies;
pub(crate) mod tenants;
pub(crate) mod threeds;
pub(crate) mod token_intents;
pub(crate) mod tokens;
pub(crate) mod webhooks;
