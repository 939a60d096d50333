//! Migrations: each once, whoever comes first. A row is the lock, so nothing is needed that a pooler
//! or an engine like PostgreSQL may lack.

use std::cmp::Ordering;

use deadpool_postgres::{Client, GenericClient};
use scrip_core::store::StoreError;
use tokio_postgres::error::SqlState;

use crate::postgres::engine::error::store_error;

/// In their order. One that was released is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001.sql")];

const CREATE_SCHEMA_STATE: &str = "
CREATE TABLE IF NOT EXISTS schema_state (one INTEGER PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL);
    INSERT INTO schema_state (one, version) VALUES (1, 0) ON CONFLICT (one) DO NOTHING;";

/// How often two that create the same table at once may get into each other's way.
const ATTEMPTS: usize = 8;

pub(crate) const NEWEST_VERSION: i64 = 1;

/// What became of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationResult {
    /// Zero where there was none.
    pub from: i64,
    pub to: i64,
}

/// Brings the schema to the newest version, and says from which it came.
pub(crate) async fn migrate(client: &mut Client) -> Result<MigrationResult, StoreError> {
    // What has nothing to do needs no right to do it.
    if let Some(from @ NEWEST_VERSION..) = schema_version(client).await? {
        check_version(from)?;
        return Ok(MigrationResult { from, to: NEWEST_VERSION });
    }
    create_schema_state(client).await?;
    let transaction = client.transaction().await.map_err(store_error)?;
    let sql = "SELECT version FROM schema_state WHERE one = 1 FOR UPDATE";
    let row = transaction.query_one(sql, &[]).await.map_err(store_error)?;
    let from: i64 = row.try_get(0).map_err(|_| UNREADABLE)?;
    if from > NEWEST_VERSION {
        check_version(from)?;
    }
    let done = usize::try_from(from).map_err(|_| UNREADABLE)?;
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.batch_execute(migration).await.map_err(store_error)?;
    }
    if from < NEWEST_VERSION {
        let sql = "UPDATE schema_state SET version = $1 WHERE one = 1";
        transaction.execute(sql, &[&NEWEST_VERSION]).await.map_err(store_error)?;
    }
    transaction.commit().await.map_err(store_error)?;
    Ok(MigrationResult { from, to: NEWEST_VERSION })
}

/// Whether a schema of this version is the one that we know.
pub(crate) fn check_version(version: i64) -> Result<(), StoreError> {
    let output = match version.cmp(&NEWEST_VERSION) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => format!(
            "its schema is version {version}, and this program needs version {NEWEST_VERSION}; run: scrip \
             migrate"
        ),
        Ordering::Greater => format!(
            "its schema is version {version}, and this program knows none after {NEWEST_VERSION}; run a \
             newer scrip"
        ),
    };
    Err(StoreError::Unavailable(output.into()))
}

/// `IF NOT EXISTS` looks and creates in two steps, between which another node can create it.
async fn create_schema_state(client: &Client) -> Result<(), StoreError> {
    let mut left = ATTEMPTS;
    loop {
        left = left.saturating_sub(1);
        match client.batch_execute(CREATE_SCHEMA_STATE).await {
            Err(error) if left > 0 && is_creation_race(error.code()) => (),
            created => return created.map_err(store_error),
        }
    }
}

/// By how far the other one came: its row, its table, or the type that goes with the table.
fn is_creation_race(code: Option<&SqlState>) -> bool {
    let races = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    code.is_some_and(|it| races.contains(it))
}

const UNREADABLE: StoreError = StoreError::Corrupt("the version of the schema is not one of ours");

/// Nothing where there was never a vault.
pub(crate) async fn schema_version(client: &impl GenericClient) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT version FROM schema_state WHERE one = 1";
    match client.query_opt(sql, &[]).await {
        Ok(None) => Ok(None),
        Ok(Some(row)) => row.try_get(0).map(Some).map_err(|_| UNREADABLE),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(store_error(error)),
    }
}
