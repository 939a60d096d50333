//! One statement, prepared once for each connection, and what can go wrong with it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use scrip_core::{id::TenantId, store::StoreError, time::Timestamp};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    postgres::{
        PostgresStore,
        engine::{
            error::store_error,
            pool::{ConnectionPool, DeletionClock, PooledConnection},
            scope::RowScope,
        },
    },
    sql::{ColumnReader, Execute, Parameter, Statements, required},
};

/// A parameter as the engine's client takes it.
pub(crate) type SqlValue<'a> = &'a (dyn ToSql + Sync);

/// What else is to be found out on the way in, once nobody of the tenant writes any more.
#[derive(Clone, Copy)]
pub(crate) struct ExtraQuery<'a> {
    pub(crate) sql: &'static str,
    pub(crate) parameters: &'a [SqlValue<'a>],
}

/// Where a statement goes: always into a transaction that has said whose rows it is about.
pub(crate) trait PostgresClient: Sync {
    fn rows(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

/// Shared code asks with parameters of both engines.
impl<C: PostgresClient> Statements for C {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(sql, &raw(parameters)).await?;
        rows.iter().map(|row| decode(row)).collect()
    }
}

/// Parameters as the engine's client takes them.
pub(crate) fn raw<'a>(parameters: &'a [Parameter<'a>]) -> Vec<SqlValue<'a>> {
    parameters.iter().map(|it| -> SqlValue<'a> { it }).collect()
}

/// In a transaction that was begun, and is ended, by whoever holds the connection.
impl PostgresClient for PooledConnection {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, parameters).await
        };
        self.with_timeout(query).await?.map_err(store_error)
    }
}

impl Execute for PooledConnection {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl PooledConnection {
    /// Statements without anything to fill in.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.client()?.batch_execute(sql);
        self.with_timeout(done).await?.map_err(store_error)
    }

    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        let client = self.client()?;
        let done = async {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, parameters).await
        };
        self.with_timeout(done).await?.map(count).map_err(store_error)
    }
}

/// For what goes on for as long as it takes.
impl PostgresClient for deadpool_postgres::Transaction<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare_cached(sql).await.map_err(store_error)?;
        tokio_postgres::Transaction::query(self, &statement, parameters).await.map_err(store_error)
    }
}

/// Every statement is a transaction of its own, in one round trip: what begins it, the statement and
/// what ends it are sent together.
pub(crate) struct AutocommitClient<'a> {
    pool: &'a ConnectionPool,
    begin: String,
    response_timeout: Duration,
}

/// Longer than the engine's own, in `scope.rs`.
const LONG_RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

impl<'a> AutocommitClient<'a> {
    pub(crate) fn new(pool: &'a ConnectionPool, scope: RowScope) -> Self {
        Self { pool, begin: scope.begin_single(), response_timeout: Duration::ZERO }
    }

    /// For statements that go through whole tables.
    pub(crate) fn with_long_timeout(pool: &'a ConnectionPool, scope: RowScope) -> Self {
        Self { pool, begin: scope.begin_long(), response_timeout: LONG_RESPONSE_TIMEOUT }
    }

    async fn acquire(&self) -> Result<PooledConnection, StoreError> {
        let mut connection = self.pool.acquire().await?;
        connection.raise_response_timeout(self.response_timeout);
        Ok(connection)
    }
}

/// What one of these does.
macro_rules! autocommit {
    ($self:ident, $method:ident, $sql:ident, $parameters:ident) => {{
        let mut connection = $self.acquire().await?;
        let client = connection.client()?;
        let done = async {
            let statement = client.prepare_cached($sql).await?;
            // Should one fail, the engine takes COMMIT for ROLLBACK.
            let (_, done, _) = tokio::try_join!(
                biased;
                client.batch_execute(&$self.begin),
                client.$method(&statement, $parameters),
                client.batch_execute("COMMIT"),
            )?;
            Ok(done)
        };
        let done = connection.with_timeout(done).await?.map_err(store_error)?;
        connection.release();
        Ok(done)
    }};
}

impl PostgresClient for AutocommitClient<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        autocommit!(self, query, sql, parameters)
    }
}

impl Execute for AutocommitClient<'_> {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl AutocommitClient<'_> {
    /// How many rows it changed.
    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        autocommit!(self, execute, sql, parameters).map(count)
    }
}

/// Statements in it see the database as the first of them does.
pub(crate) struct ReadSnapshot {
    connection: PooledConnection,
    /// Sent with the first statement.
    begin: Mutex<Option<String>>,
}

impl ReadSnapshot {
    pub(crate) async fn new(pool: &ConnectionPool, scope: RowScope) -> Result<Self, StoreError> {
        let begin = Mutex::new(Some(scope.begin_snapshot()));
        Ok(Self { connection: pool.acquire().await?, begin })
    }

    /// What it gave. Where the engine did not give it, there is nothing to end.
    pub(crate) async fn end<T>(mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Ok(_) | Err(StoreError::Corrupt(_)) = result {
            self.connection.batch("COMMIT").await?;
            self.connection.release();
        }
        result
    }
}

impl PostgresClient for ReadSnapshot {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(begin) = begin else { return self.connection.rows(sql, parameters).await };
        let client = self.connection.client()?;
        let query = async {
            let statement = client.prepare_cached(sql).await?;
            let (_, rows) = tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                client.query(&statement, parameters),
            )?;
            Ok(rows)
        };
        self.connection.with_timeout(query).await?.map_err(store_error)
    }
}

const DATABASE_TIME: &str = "
-- database_time
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The earlier of this time and that of the database's own clock.
pub(crate) async fn cap_at_database_clock(
    client: &impl Statements,
    clock: DeletionClock,
    at: Timestamp,
) -> Result<Timestamp, StoreError> {
    if clock == DeletionClock::Node {
        return Ok(at);
    }
    let now = client.find(DATABASE_TIME, &[], |row| required(row, 0)).await?;
    Ok(at.min(now.ok_or(StoreError::Corrupt("the database has no time"))?))
}

/// Rows that a statement changed.
fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

impl PostgresStore {
    /// For single statements about one tenant.
    pub(crate) fn for_tenant(&self, tenant: TenantId) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::for_tenant(tenant))
    }

    /// For what is found by something that names no tenant, and for the vault's own work. Nothing
    /// that it finds is shown to anybody as it is: whose it is, its row says.
    pub(crate) fn for_all_tenants(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::all_tenants())
    }

    /// For tables that belong to nobody.
    pub(crate) fn without_tenant(&self) -> AutocommitClient<'_> {
        AutocommitClient::new(&self.pool, RowScope::no_tenant())
    }
}
