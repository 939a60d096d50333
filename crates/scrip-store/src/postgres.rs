//! PostgreSQL: for more than one machine. What holds where several nodes write is in
//! docs/decisions/0034-postgresql.md.

mod audit;
mod connect;
mod engine;
mod maintenance;
mod policy;
pub mod sent;
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
    sql::{DeleteSome, Execute, Outcome, Parameter, parameters},
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
    /// Writes for a tenant in a transaction, which keeps what the outcome says is kept.
    pub(crate) async fn write<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = self.begin(tenant).await?;
        let outcome = work(&mut transaction).await?;
        match outcome.is_kept() {
            true => transaction.commit().await?,
            false => transaction.roll_back().await?,
        }
        Ok(outcome)
    }

    /// The same: whoever writes for a tenant waits for its turn.
    pub(crate) async fn write_waiting<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(tenant, work).await
    }

    pub(crate) async fn delete_some(
        &self,
        delete: &DeleteSome,
        by: impl Into<Parameter<'static>>,
    ) -> Result<usize, StoreError> {
        let some = parameters![by.into(), delete.postgres_rows_max];
        self.of_every_tenant().execute(delete.sql.postgres, &some).await
    }

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
