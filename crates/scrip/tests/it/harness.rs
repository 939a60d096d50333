//! A server with a database of its own, and a client for it.

pub(crate) mod engine;
pub(crate) mod server;
