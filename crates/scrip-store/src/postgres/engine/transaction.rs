//! A write transaction for one tenant and one of its logs. Only one such transaction runs at a
//! time.
//!
//! The first statement updates the tenant's row in `tenant_locks` and so waits for the previous
//! transaction, on any node. Later statements see all data that the previous transaction committed,
//! because under READ COMMITTED each statement sees the data committed before it began. Nothing
//! else is locked earlier, so deadlocks cannot occur.

use std::sync::Arc;

use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    events::NewDelivery,
    types::{StoreError, id::TenantId},
};
use tokio_postgres::{Row, error::SqlState};

use crate::{
    health::StoreHealth,
    postgres::engine::{
        chain::{self, PendingChain},
        commit_rows::{delivery_statement, usage_statements},
        error::{store_error, unavailable},
        pool::{ConnectionPool, PooledConnection, report_failed_write},
        scope::RowScope,
        statement::{ExtraQuery, PostgresClient, SqlValue, execute_all, prepare_all},
        tenant_lock::{TenantGuard, TenantLog},
        write_set::WriteSet,
    },
    shared::tokens::writes::UsageDelta,
    sql::KeyVersions,
};

/// Maximum number of attempts to begin a transaction. The server may abort an attempt before it has
/// an effect.
const BEGIN_ATTEMPTS_MAX: usize = 4;

/// A write transaction, which holds the lock of its tenant and log.
#[derive(Debug)]
pub(crate) struct PostgresTransaction {
    connection: PooledConnection,
    /// Dropped after the connection.
    _guard: TenantGuard,
    pub(crate) tenant: TenantId,
    /// `None` if the tenant does not exist.
    key_versions: Option<KeyVersions>,
    log: LogKind,
    /// Number of the tenant's newest token.
    last_number: i64,
    pub(crate) chain: PendingChain,
    pub(crate) usage: UsageDelta,
    deliveries: Vec<NewDelivery>,
    health: Arc<StoreHealth>,
}

/// Locks the tenant and reserves token numbers. The result is at least the highest number of an
/// existing token, even if the row was altered.
pub(crate) const LOCK_TENANT: &str = "
-- lock_tenant
INSERT INTO tenant_locks (tenant, log, last_token_number)
VALUES ($1, $2, coalesce((SELECT max(number) FROM tokens WHERE tenant = $1), 0) + $3)
ON CONFLICT (tenant, log) DO UPDATE
SET last_token_number = greatest(tenant_locks.last_token_number + $3, excluded.last_token_number)
RETURNING last_token_number";

/// A state of the transaction to which later work can be rolled back.
#[derive(Debug)]
pub(crate) struct Savepoint {
    records: usize,
    usage_changes: usize,
    deliveries: usize,
}

/// The reason why a transaction was not committed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The server rejected rows of a write set, so nothing of the set was written.
    RowsRejected,
    Failed(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl CommitError {
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::RowsRejected => unavailable("PostgreSQL rejected the rows"),
            Self::Failed(error) => error,
        }
    }
}

fn commit_error(error: tokio_postgres::Error) -> CommitError {
    match error.code() {
        Some(code) if is_row_error(code) => CommitError::RowsRejected,
        Some(_) | None => CommitError::Failed(store_error(error)),
    }
}

/// Whether the server itself reports an error about rows. COMMIT is pipelined after the rows: if a
/// pooler lost the server, its error codes do not say whether the commit happened.
fn is_row_error(code: &SqlState) -> bool {
    code.code().starts_with("23") || is_serialization_failure(code)
}

fn is_serialization_failure(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// The reason why a transaction did not begin.
enum BeginError {
    /// The server aborted the transaction before it had an effect.
    Retry,
    Failed(StoreError),
}

fn begin_error(error: tokio_postgres::Error) -> BeginError {
    match error.code() {
        Some(code) if is_serialization_failure(code) => BeginError::Retry,
        Some(_) | None => BeginError::Failed(store_error(error)),
    }
}

impl PostgresClient for PostgresTransaction {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        self.connection.rows(sql, parameters).await
    }
}

impl PostgresTransaction {
    /// Begins a transaction for at most this many new tokens.
    pub(crate) async fn begin(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens_max: usize,
    ) -> Result<Self, StoreError> {
        Self::begin_with_query(pool, tenant_log, tokens_max, None)
            .await
            .map(|(transaction, _)| transaction)
    }

    /// Like `begin`; also returns the rows of an extra query.
    pub(crate) async fn begin_with_query(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens_max: usize,
        extra_query: Option<ExtraQuery<'_>>,
    ) -> Result<(Self, Vec<Row>), StoreError> {
        let mut remaining_attempts = BEGIN_ATTEMPTS_MAX;
        loop {
            remaining_attempts = remaining_attempts.saturating_sub(1);
            match Self::try_begin(pool, tenant_log, tokens_max, extra_query).await {
                Err(BeginError::Retry) if remaining_attempts > 0 => (),
                Err(BeginError::Retry) => return Err(StoreError::Busy),
                Err(BeginError::Failed(error)) => {
                    report_failed_write(&pool.health, &error);
                    return Err(error);
                }
                Ok(transaction) => return Ok(transaction),
            }
        }
    }

    /// Begins a transaction in one round trip, if the statements are prepared.
    async fn try_begin(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens: usize,
        extra_query: Option<ExtraQuery<'_>>,
    ) -> Result<(Self, Vec<Row>), BeginError> {
        let TenantLog { log, tenant } = tenant_log;
        // The lock comes before the connection: waiters for one tenant must not use up the pool.
        let guard = pool.locks.acquire(tenant_log).await.map_err(BeginError::Failed)?;
        let connection = pool.acquire().await.map_err(BeginError::Failed)?;
        let client = connection.client().map_err(BeginError::Failed)?;
        let begin = RowScope::for_tenant(tenant).begin_write();
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let log_name = log.as_str();
        let begin_future = async {
            let lock_tenant = client.prepare_cached(LOCK_TENANT).await?;
            let open_chain = client.prepare_cached(chain::OPEN_CHAIN).await?;
            let extra_statement = match extra_query {
                Some(it) => Some(client.prepare_cached(it.sql).await?),
                None => None,
            };
            // Pipelined in this order.
            tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                async { client.query_one(&lock_tenant, &[&tenant.0, &log_name, &tokens]).await },
                async { client.query_one(&open_chain, &[&tenant.0, &log_name]).await },
                async {
                    match extra_statement.as_ref().zip(extra_query) {
                        Some((statement, it)) => client.query(statement, it.parameters).await,
                        None => Ok(Vec::new()),
                    }
                },
            )
        };
        let result = connection.with_timeout(begin_future).await.map_err(BeginError::Failed)?;
        let (_, lock_row, chain_row, rows) = result.map_err(begin_error)?;
        let invalid_lock = |_| BeginError::Failed(StoreError::Corrupt("a tenant lock is invalid"));
        let last_reserved: i64 = lock_row.try_get(0).map_err(invalid_lock)?;
        let last_number = last_reserved.saturating_sub(tokens);
        let chain = PendingChain::from_row(&chain_row);
        let sealing: Option<i64> = chain_row.try_get(8).map_err(invalid_lock)?;
        let oldest = chain_row.try_get(9).map_err(invalid_lock)?;
        let key_versions = sealing.map(|it| KeyVersions::from_columns(it, oldest));
        let usage = UsageDelta::default();
        let transaction = Self {
            connection,
            _guard: guard,
            tenant,
            key_versions,
            log,
            last_number,
            chain,
            usage,
            deliveries: Vec::new(),
            health: Arc::clone(&pool.health),
        };
        Ok((transaction, rows))
    }

    /// Returns the connection for statements of this transaction.
    pub(crate) fn client(&self) -> Result<&PooledConnection, StoreError> {
        self.connection.client().map(|_| &self.connection)
    }

    pub(crate) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Runs a statement without parameters.
    pub(crate) async fn connection_batch(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.batch(sql).await
    }

    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        self.connection.execute_raw(sql, parameters).await
    }

    /// Runs one query in the scope of all tenants, in one round trip.
    pub(crate) async fn query_all_tenants(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.connection.client()?;
        let (set_all_tenants, set_tenant) = (
            RowScope::all_tenants().set_statement(),
            RowScope::for_tenant(self.tenant).set_statement(),
        );
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            let (_, rows, _) = tokio::try_join!(
                biased;
                client.batch_execute(&set_all_tenants),
                client.query(&statement, parameters),
                client.batch_execute(&set_tenant),
            )?;
            Ok(rows)
        };
        self.connection.with_timeout(query).await?.map_err(store_error)
    }

    /// The versions of the tenant's sealing key. Fails if the tenant was deleted: a request that
    /// began before the deletion must not write after it.
    pub(crate) fn stored_key_versions(&self) -> Result<KeyVersions, StoreError> {
        let tenant_deleted = || StoreError::Unavailable("the tenant was deleted".into());
        self.key_versions.ok_or_else(tenant_deleted)
    }

    /// Fails for another tenant: a transaction writes for one tenant only.
    pub(crate) fn check_tenant_matches(&self, tenant: TenantId) -> Result<(), StoreError> {
        if tenant == self.tenant {
            return Ok(());
        }
        Err(StoreError::Corrupt("a transaction can write for one tenant only"))
    }

    /// Returns the number for a new token.
    pub(crate) fn next_number(&mut self) -> i64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    /// Adds a log record; all records are written together before the commit.
    pub(crate) fn append_record(
        &mut self,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) {
        let subject = RecordSubject { log: self.log, tenant: self.tenant, entity, outcome };
        self.chain.append(audit, subject);
    }

    /// Adds deliveries; all of them are written together before the commit.
    pub(crate) fn append_deliveries(
        &mut self,
        deliveries: &[NewDelivery],
    ) -> Result<(), StoreError> {
        for delivery in deliveries {
            self.check_tenant_matches(delivery.key.tenant)?;
            self.deliveries.push(delivery.clone());
        }
        Ok(())
    }

    /// Creates a savepoint before work that may be rolled back alone.
    pub(crate) async fn savepoint(&self) -> Result<Savepoint, StoreError> {
        self.connection.batch("SAVEPOINT work").await?;
        Ok(Savepoint {
            records: self.chain.record_count(),
            usage_changes: self.usage.change_count(),
            deliveries: self.deliveries.len(),
        })
    }

    pub(crate) async fn release(&self, _: Savepoint) -> Result<(), StoreError> {
        self.connection.batch("RELEASE SAVEPOINT work").await
    }

    /// Rolls back all work since the savepoint.
    pub(crate) async fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        self.chain.truncate(savepoint.records);
        self.usage.truncate(savepoint.usage_changes);
        self.deliveries.truncate(savepoint.deliveries);
        let sql = "ROLLBACK TO SAVEPOINT work; RELEASE SAVEPOINT work";
        self.connection.batch(sql).await
    }

    /// Writes the rows of a set; the transaction continues.
    pub(crate) async fn put(&self, set: &WriteSet<'_>) -> Result<(), CommitError> {
        let client = self.connection.client()?;
        let put_rows = async {
            let statements = prepare_all(client, set.statements(self.tenant)).await?;
            execute_all(client, &statements).await.map_err(commit_error)
        };
        self.connection.with_timeout(put_rows).await?
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(&WriteSet::default()).await.map_err(CommitError::into_store_error)
    }

    /// Writes the rows of a set, the log records, the usage counters and the deliveries, and commits:
    /// one round trip.
    pub(crate) async fn commit_with(self, set: &WriteSet<'_>) -> Result<(), CommitError> {
        let health = Arc::clone(&self.health);
        let result = self.put_and_commit(set).await;
        if let Err(CommitError::Failed(error)) = &result {
            report_failed_write(&health, error);
        }
        result
    }

    async fn put_and_commit(mut self, set: &WriteSet<'_>) -> Result<(), CommitError> {
        let tenant_log = TenantLog { log: self.log, tenant: self.tenant };
        self.chain.recover_lost_head(&self.connection, tenant_log).await?;
        let client = self.connection.client()?;
        let chain_rows = self.chain.chain_rows(tenant_log);
        let mut other_rows = chain_rows.statements();
        other_rows.extend(usage_statements(&self.usage, self.tenant));
        other_rows.extend(delivery_statement(&self.deliveries));
        let put_and_commit = async {
            let set_rows = prepare_all(client, set.statements(self.tenant)).await?;
            let other_rows = prepare_all(client, other_rows).await?;
            // If one statement fails, PostgreSQL treats COMMIT as ROLLBACK.
            Ok::<_, StoreError>(tokio::join!(
                biased;
                execute_all(client, &set_rows),
                execute_all(client, &other_rows),
                client.batch_execute("COMMIT"),
            ))
        };
        let (set_result, other_result, commit_result) =
            self.connection.with_timeout(put_and_commit).await??;
        // COMMIT or ROLLBACK: in both cases the transaction has ended, and the connection can be
        // reused.
        if commit_result.is_ok() {
            self.connection.release();
        }
        set_result.map_err(commit_error)?;
        let result = other_result.and(commit_result);
        result.map_err(|error| CommitError::Failed(store_error(error)))
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), StoreError> {
        self.connection.batch("ROLLBACK").await?;
        self.connection.release();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A retry after any other error could apply a committed write twice.
    #[test]
    fn only_row_errors_are_retried_individually() {
        for code in ["23505", "23503", "23502", "40001", "40P01"] {
            assert!(is_row_error(&SqlState::from_code(code)), "{code} must be a row error");
        }
        for code in ["08P01", "08006", "57P01", "58000", "40003", "53300", "25P02", "XX000"] {
            assert!(!is_row_error(&SqlState::from_code(code)), "{code} must not be a row error");
        }
    }
}
