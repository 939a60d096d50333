//! PostgreSQL: for more than one machine. What holds where several nodes write is in
//! docs/decisions/0034-postgresql.md.

mod audit;
pub mod bench_statements;
mod connect;
mod engine;
mod maintenance;
mod policy;
mod tokens;
pub mod transfer;

use scrip_core::{audit::LogKind, id::TenantId, store::StoreError};

use crate::{
    claims::InFlightClaims,
    postgres::{
        audit::read_log::PostgresReadLog,
        connect::directory_listener::DirectoryListener,
        engine::{
            pool::ConnectionPool,
            scope::RowScope,
            statement::{AutocommitClient, ReadSnapshot},
            tenant_lock::TenantLog,
            transaction::PostgresTransaction,
        },
        tokens::write_group::TokenWriteQueue,
    },
    shared::audit::log::{ChainStatements, POSTGRES_ACCESS_LOG, POSTGRES_AUDIT_LOG},
    sql::{DeleteSome, Execute, Outcome, Parameter, parameters},
};

pub use crate::postgres::connect::{
    address::PostgresTransport,
    health::ServerHealth,
    migrate::MigrationResult,
    settings::{InvalidAddress, PostgresSettings},
};
pub use tokio_postgres_rustls::MakeRustlsConnect;

#[derive(Debug)]
pub struct PostgresStore {
    pool: ConnectionPool,
    pub(crate) read_log: PostgresReadLog,
    write_queue: TokenWriteQueue,
    /// Of this node. Another node's are known by the rows that they commit.
    pub(crate) claims: InFlightClaims,
    directory_listener: DirectoryListener,
}

impl PostgresStore {
    pub(crate) fn chain_statements(log: LogKind) -> &'static ChainStatements {
        match log {
            LogKind::Audit => &POSTGRES_AUDIT_LOG,
            LogKind::Read => &POSTGRES_ACCESS_LOG,
        }
    }

    /// Single statements about the chains of a log.
    pub(crate) fn chains(&self, _: LogKind) -> AutocommitClient<'_> {
        self.for_all_tenants()
    }

    /// The same, about one of them.
    pub(crate) fn chain_reader(&self, _: LogKind, tenant: TenantId) -> AutocommitClient<'_> {
        self.for_tenant(tenant)
    }

    /// Statements about one tenant, which see both logs and their heads in one snapshot.
    pub(crate) async fn read_snapshot<T>(
        &self,
        _: LogKind,
        tenant: TenantId,
        read: impl AsyncFnOnce(&ReadSnapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let it = ReadSnapshot::new(&self.pool, RowScope::for_tenant(tenant)).await?;
        let value = read(&it).await;
        it.end(value).await
    }

    /// Writes for a tenant in a transaction, which keeps what the outcome says is kept.
    pub(crate) async fn write<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_log(LogKind::Audit, tenant, work).await
    }

    /// The same, which writes to a log.
    pub(crate) async fn write_log<T: Outcome>(
        &self,
        log: LogKind,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction =
            PostgresTransaction::begin(&self.pool, TenantLog { log, tenant }, 0).await?;
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
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(tenant, work).await
    }

    pub(crate) async fn delete_some(
        &self,
        _: LogKind,
        delete: &DeleteSome,
        by: impl Into<Parameter<'static>>,
    ) -> Result<usize, StoreError> {
        let some = parameters![by.into(), delete.postgres_rows_max];
        self.for_all_tenants().execute(delete.postgres, &some).await
    }
}
