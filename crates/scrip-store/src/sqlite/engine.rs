//! The database file, its connections, and the group commits of the writer.

pub(crate) mod checkpoint;
pub(crate) mod connection;
pub(crate) mod delivery_rows;
pub(crate) mod failure;
pub(crate) mod open_chains;
pub(crate) mod probe;
pub(crate) mod readers;
pub(crate) mod statement;
pub(crate) mod transaction;
mod usage;
pub(crate) mod write_transaction;
pub(crate) mod writer;
mod writer_metrics;
