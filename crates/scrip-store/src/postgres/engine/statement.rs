//! Statements, prepared once per connection, and the columns of their rows.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use deadpool_postgres::Object;
use futures_util::future::try_join_all;
use scrip_core::{Timestamp, types::StoreError};
use tokio_postgres::{
    Row, Statement,
    types::{FromSql, ToSql},
};
use uuid::Uuid;

use crate::{
    postgres::engine::{
        error::store_error,
        pool::{ConnectionPool, DeletionClock, PooledConnection},
        scope::RowScope,
    },
    sql::{ColumnReader, Execute, MISSING_COLUMNS, Parameter, Statements, read_required},
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

/// A statement for many rows, whose parameters are single values and an array per column.
pub(crate) struct RowStatement<'a> {
    pub(crate) sql: &'static str,
    parameters: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> RowStatement<'a> {
    /// Creates a statement without arrays.
    pub(crate) fn new(sql: &'static str, values: impl IntoIterator<Item = Parameter<'a>>) -> Self {
        Self { sql, parameters: Vec::new() }.values(values)
    }

    /// Creates a statement with single values, then the columns of the rows; `None` without rows.
    pub(crate) fn for_rows<const N: usize>(
        sql: &'static str,
        values: impl IntoIterator<Item = Parameter<'a>>,
        rows: Vec<[Parameter<'a>; N]>,
    ) -> Option<Self> {
        (!rows.is_empty()).then(|| Self::new(sql, values).columns(rows))
    }

    pub(crate) fn values(mut self, values: impl IntoIterator<Item = Parameter<'a>>) -> Self {
        for value in values {
            self.parameters.push(Box::new(value));
        }
        self
    }

    /// Appends an array per column.
    pub(crate) fn columns<const N: usize>(
        mut self,
        rows: impl IntoIterator<Item = [Parameter<'a>; N]>,
    ) -> Self {
        let mut columns = std::array::from_fn::<Vec<_>, N, _>(|_| Vec::new());
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        for column in columns {
            self.parameters.push(Box::new(column));
        }
        self
    }

    /// Returns the parameters for the PostgreSQL driver.
    pub(crate) fn driver_parameters(&self) -> Vec<SqlValue<'_>> {
        self.parameters.iter().map(|it| -> SqlValue<'_> { &**it }).collect()
    }
}

/// Prepares statements on a connection.
pub(crate) async fn prepare_all<'a>(
    client: &Object,
    statements: Vec<RowStatement<'a>>,
) -> Result<Vec<(Statement, RowStatement<'a>)>, StoreError> {
    let mut prepared = Vec::new();
    for it in statements {
        prepared.push((client.prepare_cached(it.sql).await.map_err(store_error)?, it));
    }
    Ok(prepared)
}

/// Pipelines prepared statements: sends all of them, in this order, before it waits for a result.
pub(crate) async fn execute_all(
    client: &Object,
    prepared: &[(Statement, RowStatement<'_>)],
) -> Result<(), tokio_postgres::Error> {
    let results = prepared.iter().map(|(statement, it)| execute_one(client, statement, it));
    try_join_all(results).await.map(drop)
}

async fn execute_one(
    client: &Object,
    statement: &Statement,
    rows: &RowStatement<'_>,
) -> Result<u64, tokio_postgres::Error> {
    client.execute(statement, &rows.driver_parameters()).await
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

impl ColumnReader for Row {
    fn uuid(&self, index: usize) -> Result<Option<Uuid>, StoreError> {
        read_column(self, index)
    }

    fn number(&self, index: usize) -> Result<Option<i64>, StoreError> {
        read_column(self, index)
    }

    fn text(&self, index: usize) -> Result<Option<&str>, StoreError> {
        read_column(self, index)
    }

    fn bytes(&self, index: usize) -> Result<Option<&[u8]>, StoreError> {
        read_column(self, index)
    }
}

/// Reads a column of a type that only PostgreSQL has.
pub(crate) fn read_column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|_| MISSING_COLUMNS)
}
