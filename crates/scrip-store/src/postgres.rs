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

use scrip_core::{audit::Log, id::TenantId, store::StoreError};

use crate::{
    claims::Claims,
    postgres::{
        audit::access_log::AccessLog,
        connect::listen::Changes,
        engine::{
            lane::Lane,
            pool::Pool,
            scope::Scope,
            statement::{Instant, Single},
            transaction::Transaction,
        },
        tokens::group::Writes,
    },
    rules::audit::log::{ChainStatements, POSTGRES_ACCESS_LOG, POSTGRES_AUDIT_LOG},
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
    pub(crate) access: AccessLog,
    writes: Writes,
    /// Of this node. Another node's are known by the rows that they commit.
    pub(crate) claims: Claims,
    changes: Changes,
}

impl PostgresStore {
    pub(crate) fn chain_statements(log: Log) -> &'static ChainStatements {
        match log {
            Log::Audit => &POSTGRES_AUDIT_LOG,
            Log::Access => &POSTGRES_ACCESS_LOG,
        }
    }

    /// Single statements about the chains of a log.
    pub(crate) fn chains(&self, _: Log) -> Single<'_> {
        self.of_every_tenant()
    }

    /// The same, about one of them.
    pub(crate) fn chain(&self, _: Log, tenant: TenantId) -> Single<'_> {
        self.of(tenant)
    }

    /// Statements about one tenant, which see both logs and their heads in one snapshot.
    pub(crate) async fn at_one_instant<T>(
        &self,
        _: Log,
        tenant: TenantId,
        read: impl AsyncFnOnce(&Instant) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let it = Instant::new(&self.pool, Scope::of(tenant)).await?;
        let given = read(&it).await;
        it.end(given).await
    }

    /// Writes for a tenant in a transaction, which keeps what the outcome says is kept.
    pub(crate) async fn write<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_log(Log::Audit, tenant, work).await
    }

    /// The same, which writes to a log.
    pub(crate) async fn write_log<T: Outcome>(
        &self,
        log: Log,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = Transaction::begin(&self.pool, Lane { log, tenant }, 0).await?;
        let outcome = work(&mut transaction).await?;
        match outcome.is_kept() {
            true => transaction.commit().await?,
            false => transaction.roll_back().await?,
        }
        Ok(outcome)
    }

    /// As [`PostgresStore::write`]: writes for one tenant run one after the other.
    pub(crate) async fn write_waiting<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(tenant, work).await
    }

    pub(crate) async fn delete_some(
        &self,
        _: Log,
        delete: &DeleteSome,
        by: impl Into<Parameter<'static>>,
    ) -> Result<usize, StoreError> {
        let some = parameters![by.into(), delete.postgres_rows_max];
        self.of_every_tenant().execute(delete.postgres, &some).await
    }
}
