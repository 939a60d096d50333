//! Statements, prepared once per connection, and their errors.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use scrip_core::{Timestamp, types::StoreError};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    postgres::engine::{
        error::store_error,
        pool::{ConnectionPool, DeletionClock, PooledConnection},
        scope::RowScope,
    },
    sql::{ColumnReader, Execute, Parameter, Statements, read_required},
};

/// A parameter for the PostgreSQL driver.
pub(crate) type SqlValue<'a> = &'a (dyn ToSql + Sync);

/// A query that runs at the beginning of a transaction, after the tenant's lock is taken.
#[derive(Clone, Copy)]
pub(crate) struct ExtraQuery<'a> {
    pub(crate) sql: &'static str,
    pub(crate) parameters: &'a [SqlValue<'a>],
}

/// Runs statements in a transaction with a row scope.
pub(crate) trait PostgresClient: Sync {
    fn rows(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

/// Runs statements of shared code. Both engines accept its parameters.
impl<C: PostgresClient> Statements for C {
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(sql, &driver_parameters(parameters)).await?;
        rows.iter().map(|row| decode(row)).collect()
    }
}

/// Converts parameters for the PostgreSQL driver.
pub(crate) fn driver_parameters<'a>(parameters: &'a [Parameter<'a>]) -> Vec<SqlValue<'a>> {
    parameters.iter().map(|it| -> SqlValue<'a> { it }).collect()
}

/// The owner of the connection begins and ends the transaction.
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
        self.execute_raw(sql, &driver_parameters(parameters)).await
    }
}

impl PooledConnection {
    /// Runs statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        let batch = self.client()?.batch_execute(sql);
        self.with_timeout(batch).await?.map_err(store_error)
    }

    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        let client = self.client()?;
        let execute = async {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, parameters).await
        };
        self.with_timeout(execute).await?.map(to_row_count).map_err(store_error)
    }
}

/// Runs statements without a time limit.
impl PostgresClient for deadpool_postgres::Transaction<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare_cached(sql).await.map_err(store_error)?;
        tokio_postgres::Transaction::query(self, &statement, parameters).await.map_err(store_error)
    }
}

/// Runs every statement in a transaction of one round trip: BEGIN, the statement and COMMIT are
/// pipelined.
pub(crate) struct AutocommitClient<'a> {
    pool: &'a ConnectionPool,
    begin: String,
    response_timeout: Duration,
}

/// Longer than the server-side timeout in `scope.rs`.
const LONG_RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

impl<'a> AutocommitClient<'a> {
    pub(crate) fn new(pool: &'a ConnectionPool, scope: RowScope) -> Self {
        Self { pool, begin: scope.begin_single(), response_timeout: Duration::ZERO }
    }

    /// Creates a client for statements that scan whole tables.
    pub(crate) fn with_long_timeout(pool: &'a ConnectionPool, scope: RowScope) -> Self {
        Self { pool, begin: scope.begin_long(), response_timeout: LONG_RESPONSE_TIMEOUT }
    }

    async fn acquire(&self) -> Result<PooledConnection, StoreError> {
        let mut connection = self.pool.acquire().await?;
        connection.raise_response_timeout(self.response_timeout);
        Ok(connection)
    }
}

/// Runs one statement between BEGIN and COMMIT.
macro_rules! autocommit {
    ($self:ident, $method:ident, $sql:ident, $parameters:ident) => {{
        let mut connection = $self.acquire().await?;
        let client = connection.client()?;
        let run_statement = async {
            let statement = client.prepare_cached($sql).await?;
            // If one statement fails, PostgreSQL treats COMMIT as ROLLBACK.
            let (_, result, _) = tokio::try_join!(
                biased;
                client.batch_execute(&$self.begin),
                client.$method(&statement, $parameters),
                client.batch_execute("COMMIT"),
            )?;
            Ok(result)
        };
        let result = connection.with_timeout(run_statement).await?.map_err(store_error)?;
        connection.release();
        Ok(result)
    }};
}

impl PostgresClient for AutocommitClient<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        autocommit!(self, query, sql, parameters)
    }
}

impl Execute for AutocommitClient<'_> {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &driver_parameters(parameters)).await
    }
}

impl AutocommitClient<'_> {
    /// Returns the number of changed rows.
    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        autocommit!(self, execute, sql, parameters).map(to_row_count)
    }
}

/// A read transaction in which all statements see the same snapshot.
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

    /// Ends the transaction and returns the result. After an error of the server there is no
    /// transaction to end.
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

/// Returns the earlier of the given time and the database's clock.
pub(crate) async fn cap_at_database_clock(
    client: &impl Statements,
    clock: DeletionClock,
    at: Timestamp,
) -> Result<Timestamp, StoreError> {
    if clock == DeletionClock::Node {
        return Ok(at);
    }
    let now = client.find(DATABASE_TIME, &[], |row| read_required(row, 0)).await?;
    Ok(at.min(now.ok_or(StoreError::Corrupt("the database returned no time"))?))
}

/// Converts the number of changed rows.
fn to_row_count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
