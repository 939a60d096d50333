//! Connections, statements, and transactions that many writes of one tenant share.

pub(crate) mod chain;
pub(crate) mod columns;
pub(crate) mod fault;
pub(crate) mod gather;
pub(crate) mod lane;
pub(crate) mod pool;
pub(crate) mod row;
pub(crate) mod scope;
pub(crate) mod set;
mod shared_writes;
pub(crate) mod statement;
pub(crate) mod tally;
pub(crate) mod transaction;
