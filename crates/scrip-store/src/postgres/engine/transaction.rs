//! A transaction that writes: of one tenant and one of its logs, and the only one of these two at a
//! time.
//!
//! The first statement changes the tenant's row in `lanes` and so waits for whoever did before, on
//! whichever node. What is read after that is what they committed, since under READ COMMITTED every
//! statement sees what is committed when it begins. Nothing else is locked before, so nobody waits
//! in a circle.

use scrip_core::{
    audit::{AuditRecord, LogKind, RecordSubject},
    id::TenantId,
    store::StoreError,
};
use tokio_postgres::{Row, error::SqlState};

use crate::{
    postgres::engine::{
        chain::{self, PendingChain},
        error::{store_error, unavailable},
        pool::{ConnectionPool, PooledConnection},
        scope::RowScope,
        statement::{ExtraQuery, PostgresClient, SqlValue},
        tenant_lock::{TenantGuard, TenantLog},
        usage_columns::UsageColumns,
        write_set::WriteSet,
    },
    shared::tokens::usage_delta::UsageDelta,
};

/// How often one is begun anew that the engine broke off before it had done anything.
const ATTEMPTS: usize = 4;

#[derive(Debug)]
pub(crate) struct PostgresTransaction {
    connection: PooledConnection,
    /// Goes after the connection.
    _guard: TenantGuard,
    pub(crate) tenant: TenantId,
    tenant_exists: bool,
    log: LogKind,
    /// Of the last token that has one.
    last_number: i64,
    pub(crate) chain: PendingChain,
    pub(crate) usage: UsageDelta,
}

/// The newest number is at least that of a token that is there, whatever somebody did to the row.
pub(crate) const LOCK_TENANT: &str = "
-- enter
INSERT INTO lanes (tenant, log, last_token)
VALUES ($1, $2, coalesce((SELECT max(number) FROM tokens WHERE tenant = $1), 0) + $3)
ON CONFLICT (tenant, log) DO UPDATE
SET last_token = greatest(lanes.last_token + $3, excluded.last_token)
RETURNING last_token";

/// Where what follows may be taken back to.
#[derive(Debug)]
pub(crate) struct Savepoint {
    records: usize,
    usage_changes: usize,
}

/// Why none was committed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The engine did not take the rows of a set, so nothing of it is there.
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
            Self::RowsRejected => unavailable("PostgreSQL did not take the rows"),
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

/// Only what the engine itself says of rows: COMMIT is on its way behind them, and a pooler that
/// lost the engine meanwhile has codes of its own, by which nobody knows how far it came.
fn is_row_error(code: &SqlState) -> bool {
    code.code().starts_with("23") || is_serialization_failure(code)
}

fn is_serialization_failure(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// Why none was begun.
enum BeginError {
    /// The engine broke it off, and nothing was done.
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
    /// For this many new tokens at most.
    pub(crate) async fn begin(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens: usize,
    ) -> Result<Self, StoreError> {
        Self::begin_with_query(pool, tenant_log, tokens, None)
            .await
            .map(|(transaction, _)| transaction)
    }

    /// The same, with the rows that answer a question.
    pub(crate) async fn begin_with_query(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens: usize,
        extra_query: Option<ExtraQuery<'_>>,
    ) -> Result<(Self, Vec<Row>), StoreError> {
        let mut left = ATTEMPTS;
        loop {
            left = left.saturating_sub(1);
            match Self::try_begin(pool, tenant_log, tokens, extra_query).await {
                Err(BeginError::Retry) if left > 0 => (),
                Err(BeginError::Retry) => return Err(StoreError::Busy),
                Err(BeginError::Failed(error)) => return Err(error),
                Ok(transaction) => return Ok(transaction),
            }
        }
    }

    /// One round trip, once the statements are prepared.
    async fn try_begin(
        pool: &ConnectionPool,
        tenant_log: TenantLog,
        tokens: usize,
        extra_query: Option<ExtraQuery<'_>>,
    ) -> Result<(Self, Vec<Row>), BeginError> {
        let TenantLog { log, tenant } = tenant_log;
        // Before a connection: those who wait for one tenant must not have them all.
        let guard = pool.locks.acquire(tenant_log).await.map_err(BeginError::Failed)?;
        let connection = pool.acquire().await.map_err(BeginError::Failed)?;
        let client = connection.client().map_err(BeginError::Failed)?;
        let begin = RowScope::for_tenant(tenant).begin_write();
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let log_name = log.as_str();
        let entered = async {
            let enter = client.prepare_cached(LOCK_TENANT).await?;
            let open = client.prepare_cached(chain::OPEN_CHAIN).await?;
            let ask = match extra_query {
                Some(it) => Some(client.prepare_cached(it.sql).await?),
                None => None,
            };
            // They are sent in this order, none waiting for the one before.
            tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                async { client.query_one(&enter, &[&tenant.0, &log_name, &tokens]).await },
                async { client.query_one(&open, &[&tenant.0, &log_name]).await },
                async {
                    match ask.as_ref().zip(extra_query) {
                        Some((ask, it)) => client.query(ask, it.parameters).await,
                        None => Ok(Vec::new()),
                    }
                },
            )
        };
        let entered = connection.with_timeout(entered).await.map_err(BeginError::Failed)?;
        let (_, entered, opened, answered) = entered.map_err(begin_error)?;
        let unreadable = |_| BeginError::Failed(StoreError::Corrupt("a lane is not one of ours"));
        let last: i64 = entered.try_get(0).map_err(unreadable)?;
        let number = last.saturating_sub(tokens);
        let chain = PendingChain::from_row(&opened);
        let has_tenant = opened.try_get(8).map_err(unreadable)?;
        let usage = UsageDelta::default();
        let transaction = Self {
            connection,
            _guard: guard,
            tenant,
            tenant_exists: has_tenant,
            log,
            last_number: number,
            chain,
            usage,
        };
        Ok((transaction, answered))
    }

    /// For statements.
    pub(crate) fn client(&self) -> Result<&PooledConnection, StoreError> {
        self.connection.client().map(|_| &self.connection)
    }

    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        self.connection.execute_raw(sql, parameters).await
    }

    /// One that has to look at other tenants' rows, in one round trip.
    pub(crate) async fn query_all_tenants(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.connection.client()?;
        let (open, close) = (
            RowScope::all_tenants().set_statement(),
            RowScope::for_tenant(self.tenant).set_statement(),
        );
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            let (_, rows, _) = tokio::try_join!(
                biased;
                client.batch_execute(&open),
                client.query(&statement, parameters),
                client.batch_execute(&close),
            )?;
            Ok(rows)
        };
        self.connection.with_timeout(query).await?.map_err(store_error)
    }

    /// A request that began before its tenant was deleted must not write after.
    pub(crate) fn check_tenant_exists(&self) -> Result<(), StoreError> {
        if self.tenant_exists {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    /// It writes for one tenant only.
    pub(crate) fn check_tenant_matches(&self, tenant: TenantId) -> Result<(), StoreError> {
        if tenant == self.tenant {
            return Ok(());
        }
        Err(StoreError::Corrupt("a transaction is of one tenant"))
    }

    /// The number of a new token.
    pub(crate) fn next_number(&mut self) -> i64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    /// One more record of the log; written with the others before the commit.
    pub(crate) fn append_record(
        &mut self,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) {
        let entry = RecordSubject { log: self.log, tenant: self.tenant, entity, outcome };
        self.chain.append(audit, entry);
    }

    /// Before a piece of work that may be taken back without the others.
    pub(crate) async fn savepoint(&self) -> Result<Savepoint, StoreError> {
        self.connection.batch("SAVEPOINT work").await?;
        Ok(Savepoint {
            records: self.chain.record_count(),
            usage_changes: self.usage.change_count(),
        })
    }

    pub(crate) async fn release(&self, _: Savepoint) -> Result<(), StoreError> {
        self.connection.batch("RELEASE SAVEPOINT work").await
    }

    /// What was done since then leaves nothing.
    pub(crate) async fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<(), StoreError> {
        self.chain.truncate(savepoint.records);
        self.usage.truncate(savepoint.usage_changes);
        let sql = "ROLLBACK TO SAVEPOINT work; RELEASE SAVEPOINT work";
        self.connection.batch(sql).await
    }

    /// The rows of a set, while there is more to come.
    pub(crate) async fn put(&self, set: &WriteSet<'_>) -> Result<(), CommitError> {
        let client = self.connection.client()?;
        let done = async {
            let statements = set.prepare(client).await?;
            set.put(client, self.tenant, statements).await.map_err(commit_error)
        };
        self.connection.with_timeout(done).await?
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(&WriteSet::default()).await.map_err(CommitError::into_store_error)
    }

    /// The rows of a set, the records, the counts and the end: one round trip.
    pub(crate) async fn commit_with(mut self, set: &WriteSet<'_>) -> Result<(), CommitError> {
        let of = TenantLog { log: self.log, tenant: self.tenant };
        self.chain.recover_lost_head(&self.connection, of).await?;
        let client = self.connection.client()?;
        let links = self.chain.chain_rows(of);
        let counts = UsageColumns::new(&self.usage);
        let done = async {
            let rows = set.prepare(client).await?;
            let records = links.prepare(client).await?;
            let counting = counts.prepare(client).await?;
            // Should one fail, the engine takes COMMIT for ROLLBACK.
            Ok::<_, StoreError>(tokio::join!(
                biased;
                set.put(client, self.tenant, rows),
                links.put(client, records),
                counts.put(client, self.tenant, counting),
                client.batch_execute("COMMIT"),
            ))
        };
        let (put, linked, counted, committed) = self.connection.with_timeout(done).await??;
        // Either way the transaction is over, and others may have the connection.
        if committed.is_ok() {
            self.connection.release();
        }
        put.map_err(commit_error)?;
        linked.and(counted)?;
        committed.map_err(|error| CommitError::Failed(store_error(error)))
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

    /// Otherwise a write that was committed would be done twice.
    #[test]
    fn only_row_errors_are_retried_individually() {
        for code in ["23505", "23503", "23502", "40001", "40P01"] {
            assert!(is_row_error(&SqlState::from_code(code)), "{code}");
        }
        for code in ["08P01", "08006", "57P01", "58000", "40003", "53300", "25P02", "XX000"] {
            assert!(!is_row_error(&SqlState::from_code(code)), "{code}");
        }
    }
}
