//! Schema migrations. Each migration runs once, on the node that starts first. The lock is a row,
//! so migrations work behind a pooler and on engines without advisory locks.

use std::cmp::Ordering;

use deadpool_postgres::{Client, GenericClient};
use scrip_core::types::StoreError;
use tokio_postgres::error::SqlState;

use crate::{
    migrations::MIGRATIONS,
    postgres::engine::error::{store_error, unavailable},
};

const CREATE_SCHEMA_STATE: &str = "
CREATE TABLE IF NOT EXISTS schema_state (singleton INTEGER PRIMARY KEY CHECK (singleton = 1), version BIGINT NOT NULL);
    INSERT INTO schema_state (singleton, version) VALUES (1, 0) ON CONFLICT (singleton) DO NOTHING;";

/// Maximum number of attempts, because two nodes may create the table at the same time.
const CREATE_ATTEMPTS_MAX: usize = 8;

/// The version after all migrations.
pub(crate) fn newest_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Schema version before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationResult {
    /// Zero for a new schema.
    pub from: i64,
    pub to: i64,
}

/// Migrates the schema to the newest version. The result names the previous version.
pub(crate) async fn migrate(client: &mut Client) -> Result<MigrationResult, StoreError> {
    // A role without the right to migrate can still start if the schema is current.
    let newest = newest_version();
    if let Some(from) = schema_version(client).await?.filter(|it| *it >= newest) {
        check_version(from)?;
        return Ok(MigrationResult { from, to: newest });
    }
    create_schema_state(client).await?;
    let transaction = client.transaction().await.map_err(store_error)?;
    let sql = "SELECT version FROM schema_state WHERE singleton = 1 FOR UPDATE";
    let row = transaction.query_one(sql, &[]).await.map_err(store_error)?;
    let from: i64 = row.try_get(0).map_err(|_| INVALID_VERSION)?;
    if from > newest {
        check_version(from)?;
    }
    let applied = usize::try_from(from).map_err(|_| INVALID_VERSION)?;
    for migration in MIGRATIONS.iter().skip(applied) {
        transaction.batch_execute(migration.postgres).await.map_err(migration_error)?;
    }
    if from < newest {
        let sql = "UPDATE schema_state SET version = $1 WHERE singleton = 1";
        transaction.execute(sql, &[&newest]).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(MigrationResult { from, to: newest })
}

/// A migration creates tables and columns that the schema before it does not have. If they exist, a
/// build between two versions created them.
fn migration_error(error: tokio_postgres::Error) -> StoreError {
    let duplicates = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_COLUMN];
    if error.code().is_some_and(|it| duplicates.contains(it)) {
        return unavailable(
            "the schema has an early version that was never released, or other programs use this \
             database; create a new database",
        );
    }
    store_error(error)
}

/// Checks that this program supports the schema version.
pub(crate) fn check_version(version: i64) -> Result<(), StoreError> {
    let newest = newest_version();
    let message = match version.cmp(&newest) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => format!(
            "the schema has version {version}, and this program needs version {newest}; run: \
             scrip migrate"
        ),
        Ordering::Greater => format!(
            "the schema has version {version}, and this program supports versions up to \
             {newest}; run a newer scrip"
        ),
    };
    Err(StoreError::Unavailable(message.into()))
}

/// Creates the table of the schema version. `IF NOT EXISTS` checks and creates in two steps;
/// another node can create the table in between.
async fn create_schema_state(client: &Client) -> Result<(), StoreError> {
    let mut remaining_attempts = CREATE_ATTEMPTS_MAX;
    loop {
        remaining_attempts = remaining_attempts.saturating_sub(1);
        match client.batch_execute(CREATE_SCHEMA_STATE).await {
            Err(error) if remaining_attempts > 0 && is_creation_race(error.code()) => (),
            result => return result.map_err(store_error),
        }
    }
}

/// The error code depends on what the other node created first: the row, the table or its type.
fn is_creation_race(code: Option<&SqlState>) -> bool {
    let races = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    code.is_some_and(|it| races.contains(it))
}

const INVALID_VERSION: StoreError = StoreError::Corrupt("the schema version is invalid");

/// Reads the schema version; `None` if the database never had a vault.
pub(crate) async fn schema_version(client: &impl GenericClient) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT version FROM schema_state WHERE singleton = 1";
    match client.query_opt(sql, &[]).await {
        Ok(None) => Ok(None),
        Ok(Some(row)) => row.try_get(0).map(Some).map_err(|_| INVALID_VERSION),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}
