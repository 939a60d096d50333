//! PostgreSQL: for more than one machine. What holds where several nodes write is in
//! docs/decisions/0034-postgresql.md.

mod audit;
mod connect;
mod engine;
mod maintenance;
mod policy;
pub mod sent;
mod sessions;
mod tokens;
pub mod transfer;

use scrip_core::{
    audit::Log,
    id::TenantId,
    store::{Changed, StoreError},
};

use crate::{
    claims::Claims,
    postgres::{
        audit::access_log::AccessLog,
        connect::listen::Changes,
        engine::{lane::Lane, pool::Pool, transaction::Transaction},
        tokens::group::Writes,
    },
};

pub use crate::postgres::connect::{
    address::Transport,
    health::Health,
    migrate::Migrated,
    settings::{PostgresSettings, WrongAddress},
};
pub use tokio_postgres_rustls::MakeRustlsConnect;

#[derive(Debug)]
pub struct PostgresStore {
    pool: Pool,
    access: AccessLog,
    writes: Writes,
    /// Of this node. Another node's are known by the rows that they commit.
    claims: Claims,
    changes: Changes,
}

impl PostgresStore {
    async fn begin(&self, tenant: TenantId) -> Result<Transaction, StoreError> {
        Transaction::begin(&self.pool, Lane { log: Log::Audit, tenant }, 0).await
    }
}

/// What a transaction gave, once it is durable.
async fn kept<T>(transaction: Transaction, given: T) -> Result<T, StoreError> {
    transaction.commit().await?;
    Ok(given)
}

/// What it gave, after it was taken back.
async fn undone<T>(transaction: Transaction, given: T) -> Result<T, StoreError> {
    transaction.roll_back().await?;
    Ok(given)
}

/// A change of something that may have changed meanwhile; then there is nothing to keep.
async fn changed(transaction: Transaction, changed: Changed) -> Result<Changed, StoreError> {
    match changed {
        Changed::Done => kept(transaction, changed).await,
        Changed::Stale => undone(transaction, changed).await,
    }
}
