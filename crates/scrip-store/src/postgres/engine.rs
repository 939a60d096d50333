//! Connections, statements, and transactions for group commit of one tenant's writes.

pub(crate) mod chain;
pub(crate) mod commit_rows;
pub(crate) mod error;
pub(crate) mod pool;
pub(crate) mod scope;
pub(crate) mod statement;
pub(crate) mod tenant_lock;
pub(crate) mod transaction;
pub(crate) mod write_queue;
pub(crate) mod write_set;
mod write_transaction;
