//! A server with its own database, and a client for it.

pub(crate) mod engine;
pub(crate) mod entities;
pub(crate) mod server;
