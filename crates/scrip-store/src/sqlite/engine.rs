//! The database file, its connections, and the group commits of the writer.

pub(crate) mod checkpoint;
pub(crate) mod connection;
pub(crate) mod open_chains;
pub(crate) mod probe;
pub(crate) mod readers;
pub(crate) mod statement;
pub(crate) mod transaction;
pub(crate) mod writer;
