//! One statement, prepared once for each connection, and what can go wrong with it.

use deadpool_postgres::{GenericClient, Object};
use scrip_core::store::StoreError;
use tokio_postgres::{IsolationLevel, Row, error::SqlState, types::ToSql};

/// What stands for `$1` and so on.
pub(super) type Parameters<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

/// Statements in it see the database as the first of them does.
pub(super) async fn at_one_instant(
    client: &mut Object,
) -> Result<deadpool_postgres::Transaction<'_>, StoreError> {
    let begin = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    begin.read_only(true).start().await.map_err(fault)
}

pub(super) async fn query(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let statement = client.prepare_cached(sql).await.map_err(fault)?;
    client.query(&statement, parameters).await.map_err(fault)
}

pub(super) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, StoreError> {
    let statement = client.prepare_cached(sql).await.map_err(fault)?;
    client.execute(&statement, parameters).await.map_err(fault)
}

/// Rows that a statement changed.
pub(super) fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

pub(super) fn unavailable(what: &'static str) -> StoreError {
    StoreError::Unavailable(what.into())
}

/// The engine's own message may quote a value; its code never does.
pub(super) fn fault(error: tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy,
        Some(code) => StoreError::Unavailable(format!("PostgreSQL error {}", code.code()).into()),
        None => unavailable("PostgreSQL did not answer"),
    }
}
