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
            fault::fault,
            pool::{DeletionClock, Held, Pool},
            scope::Scope,
        },
    },
    sql::{ColumnReader, Execute, Parameter, Statements, required},
};

/// A parameter as the engine's client takes it.
pub(crate) type SqlValue<'a> = &'a (dyn ToSql + Sync);

/// What else is to be found out on the way in, once nobody of the tenant writes any more.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
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
impl PostgresClient for Held {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        let asked = async {
            let statement = client.prepare_cached(sql).await?;
            client.query(&statement, parameters).await
        };
        self.in_time(asked).await?.map_err(fault)
    }
}

impl Execute for Held {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl Held {
    /// Statements without anything to fill in.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        let done = self.client()?.batch_execute(sql);
        self.in_time(done).await?.map_err(fault)
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
        self.in_time(done).await?.map(count).map_err(fault)
    }
}

/// For what goes on for as long as it takes.
impl PostgresClient for deadpool_postgres::Transaction<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare_cached(sql).await.map_err(fault)?;
        tokio_postgres::Transaction::query(self, &statement, parameters).await.map_err(fault)
    }
}

/// Every statement is a transaction of its own, in one round trip: what begins it, the statement and
/// what ends it are sent together.
pub(crate) struct Single<'a> {
    pool: &'a Pool,
    begin: String,
    answer_max: Duration,
}

/// Longer than the engine's own, in `scope.rs`.
const LONG_ANSWER_MAX: Duration = Duration::from_secs(70);

impl<'a> Single<'a> {
    pub(crate) fn new(pool: &'a Pool, scope: Scope) -> Self {
        Self { pool, begin: scope.begin_one(), answer_max: Duration::ZERO }
    }

    /// For statements that go through whole tables.
    pub(crate) fn long(pool: &'a Pool, scope: Scope) -> Self {
        Self { pool, begin: scope.begin_long(), answer_max: LONG_ANSWER_MAX }
    }

    async fn hold(&self) -> Result<Held, StoreError> {
        let mut held = self.pool.hold().await?;
        held.wait_for(self.answer_max);
        Ok(held)
    }
}

/// What one of these does.
macro_rules! alone {
    ($self:ident, $method:ident, $sql:ident, $parameters:ident) => {{
        let mut held = $self.hold().await?;
        let client = held.client()?;
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
        let done = held.in_time(done).await?.map_err(fault)?;
        held.release();
        Ok(done)
    }};
}

impl PostgresClient for Single<'_> {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        alone!(self, query, sql, parameters)
    }
}

impl Execute for Single<'_> {
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError> {
        self.execute_raw(sql, &raw(parameters)).await
    }
}

impl Single<'_> {
    /// How many rows it changed.
    pub(crate) async fn execute_raw(
        &self,
        sql: &str,
        parameters: &[SqlValue<'_>],
    ) -> Result<usize, StoreError> {
        alone!(self, execute, sql, parameters).map(count)
    }
}

/// Statements in it see the database as the first of them does.
pub(crate) struct Instant {
    held: Held,
    /// Sent with the first statement.
    begin: Mutex<Option<String>>,
}

impl Instant {
    pub(crate) async fn new(pool: &Pool, scope: Scope) -> Result<Self, StoreError> {
        let begin = Mutex::new(Some(scope.begin_instant()));
        Ok(Self { held: pool.hold().await?, begin })
    }

    /// What it gave. Where the engine did not give it, there is nothing to end.
    pub(crate) async fn end<T>(mut self, given: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Ok(_) | Err(StoreError::Corrupt(_)) = given {
            self.held.batch("COMMIT").await?;
            self.held.release();
        }
        given
    }
}

impl PostgresClient for Instant {
    async fn rows(&self, sql: &str, parameters: &[SqlValue<'_>]) -> Result<Vec<Row>, StoreError> {
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(begin) = begin else { return self.held.rows(sql, parameters).await };
        let client = self.held.client()?;
        let asked = async {
            let statement = client.prepare_cached(sql).await?;
            let (_, rows) = tokio::try_join!(
                biased;
                client.batch_execute(&begin),
                client.query(&statement, parameters),
            )?;
            Ok(rows)
        };
        self.held.in_time(asked).await?.map_err(fault)
    }
}

const DATABASE_TIME: &str = "
-- database_time
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The earlier of this time and that of the database's own clock.
pub(crate) async fn not_after(
    client: &impl Statements,
    clock: DeletionClock,
    at: Timestamp,
) -> Result<Timestamp, StoreError> {
    if clock == DeletionClock::OfNode {
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
    pub(crate) fn of(&self, tenant: TenantId) -> Single<'_> {
        Single::new(&self.pool, Scope::of(tenant))
    }

    /// For what is found by something that names no tenant, and for the vault's own work. Nothing
    /// that it finds is shown to anybody as it is: whose it is, its row says.
    pub(crate) fn of_every_tenant(&self) -> Single<'_> {
        Single::new(&self.pool, Scope::every_tenant())
    }

    /// For tables that belong to nobody.
    pub(crate) fn of_no_tenant(&self) -> Single<'_> {
        Single::new(&self.pool, Scope::no_tenant())
    }
}
