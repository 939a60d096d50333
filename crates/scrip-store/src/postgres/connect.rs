//! From an address to a vault that is open: settings, schema and roles, and what a server says of
//! itself.

pub(crate) mod address;
pub(crate) mod directory_listener;
pub(crate) mod health;
pub(crate) mod migrate;
mod opening;
mod roles;
pub(crate) mod settings;
