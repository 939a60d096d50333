//! Connections to PostgreSQL: address, settings, schema, roles and server health.

pub(crate) mod address;
pub(crate) mod directory_listener;
pub(crate) mod health;
pub(crate) mod migrate;
pub(crate) mod roles;
pub(crate) mod settings;
