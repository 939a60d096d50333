//! The file, its connections, and the transactions in which the one writer groups what is waiting.

pub(crate) mod chains;
pub(crate) mod checkpoint;
pub(crate) mod connection;
mod measures;
mod opening;
pub(crate) mod readers;
pub(crate) mod shared_writes;
pub(crate) mod statement;
mod tally;
pub(crate) mod transaction;
pub(crate) mod writer;
