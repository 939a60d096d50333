//! The store, its clients and its transactions.

use scrip_core::{
    audit::LogKind,
    types::{StoreError, id::TenantId},
};

use crate::{
    claims::InFlightClaims,
    policy_turns::PolicyTurns,
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
    shared::audit::log::{ChainStatements, POSTGRES_AUDIT_LOG, POSTGRES_READ_LOG},
    sql::{BatchDelete, Execute, Outcome, Parameter, parameters},
};

/// The store of the PostgreSQL engine.
#[derive(Debug)]
pub struct PostgresStore {
    pub(super) pool: ConnectionPool,
    pub(crate) read_log: PostgresReadLog,
    pub(super) write_queue: TokenWriteQueue,
    /// Claims of this node. A claim of another node is visible only when its rows are committed.
    pub(crate) claims: InFlightClaims,
    pub(crate) policy_turns: PolicyTurns,
    pub(super) directory_listener: DirectoryListener,
}

impl PostgresStore {
    /// Client for single statements about one tenant.
    pub(crate) fn for_tenant(&self, tenant: TenantId) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::for_tenant(tenant))
    }

    /// Client for rows that are found by a key without a tenant, and for background work. The row
    /// names its tenant; callers must check it before they return the row.
    pub(crate) fn for_all_tenants(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::all_tenants())
    }

    /// Client for tables without tenant data.
    pub(crate) fn without_tenant(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::no_tenant())
    }

    pub(crate) fn chain_statements(log: LogKind) -> &'static ChainStatements {
        match log {
            LogKind::Audit => &POSTGRES_AUDIT_LOG,
            LogKind::Read => &POSTGRES_READ_LOG,
        }
    }

    /// Client for single statements on the chains of a log.
    pub(crate) fn chains(&self, _: LogKind) -> AutocommitClient<'_> {
        self.for_all_tenants()
    }

    /// Client for single statements on one tenant's chain.
    pub(crate) fn chain_reader(&self, _: LogKind, tenant: TenantId) -> AutocommitClient<'_> {
        self.for_tenant(tenant)
    }

    /// Runs statements for one tenant. Both logs and their heads are read in one snapshot.
    pub(crate) async fn read_snapshot<T>(
        &self,
        _: LogKind,
        tenant: TenantId,
        read: impl AsyncFnOnce(&ReadSnapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let snapshot = ReadSnapshot::new(&self.pool, RowScope::for_tenant(tenant)).await?;
        let value = read(&snapshot).await;
        snapshot.end(value).await
    }

    /// Writes for a tenant in one transaction. The outcome decides whether the transaction commits.
    pub(crate) async fn write<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write_log(LogKind::Audit, tenant, work).await
    }

    /// Like [`PostgresStore::write`], for a transaction that writes to the given log.
    pub(crate) async fn write_log<T: Outcome>(
        &self,
        log: LogKind,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction =
            PostgresTransaction::begin(&self.pool, TenantLog { log, tenant }, 0).await?;
        let outcome = work(&mut transaction).await?;
        match outcome.should_commit() {
            true => transaction.commit().await?,
            false => transaction.roll_back().await?,
        }
        Ok(outcome)
    }

    /// Same as [`PostgresStore::write`]: writes of one tenant already run one after the other.
    pub(crate) async fn write_waiting<T: Outcome>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PostgresTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(tenant, work).await
    }

    /// Deletes one batch of the rows before the cutoff.
    pub(crate) async fn delete_batch(
        &self,
        _: LogKind,
        delete: &BatchDelete,
        cutoff: impl Into<Parameter<'static>>,
    ) -> Result<usize, StoreError> {
        let parameters = parameters![cutoff.into(), delete.postgres_rows_max];
        self.for_all_tenants().execute(delete.postgres, &parameters).await
    }
}
