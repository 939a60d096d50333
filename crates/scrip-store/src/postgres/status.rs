//! What there is in the database, for the operator.

use scrip_core::{
    measure::ReaderMeasures,
    store::{StoreError, StoreStatus},
};

use crate::postgres::{
    pool::Pool,
    row::column,
    statement::{PostgresClient, query, unavailable},
};

/// Without going through them: numbers have no gaps. A number that somebody made too large to add is
/// no error.
macro_rules! count_records {
    ($log:literal) => {
        concat!(
            "-- count_records
    SELECT least(greatest(coalesce(sum(it.n::numeric - coalesce(pruned.n, 0)), 0), 0),
    9223372036854775807)::bigint
FROM heads AS it LEFT JOIN checkpoints AS pruned USING (tenant, log) WHERE log = '",
            $log,
            "'"
        )
    };
}

const COUNTS: [(&str, &str); 12] = [
    ("tenants", "-- count_tenants\nSELECT count(*) FROM tenants"),
    ("applications", "-- count_applications\nSELECT count(*) FROM applications"),
    ("api_keys", "-- count_api_keys\nSELECT count(*) FROM api_keys"),
    ("access_sessions", "-- count_access_sessions\nSELECT count(*) FROM access_sessions"),
    ("tokens", "-- count_tokens\nSELECT count(*) FROM tokens"),
    ("token_intents", "-- count_token_intents\nSELECT count(*) FROM token_intents"),
    ("verification_codes", "-- count_cvcs\nSELECT count(*) FROM cvcs"),
    ("sessions", "-- count_sessions\nSELECT count(*) FROM sessions"),
    ("session_events", "-- count_session_events\nSELECT count(*) FROM session_events"),
    ("remembered_answers", "-- count_answers\nSELECT count(*) FROM answers"),
    ("audit_records", count_records!("audit")),
    ("access_records", count_records!("access")),
];

const COUNT_KEYS: &str = "
-- count_tenant_keys
SELECT version, count(*) FROM tenant_keys GROUP BY version ORDER BY version";

const SCHEMA: &str = "-- schema\nSELECT version FROM schema_state WHERE one = 1";

const SIZE: &str = "-- size\nSELECT pg_database_size(current_database())";

pub(super) async fn status(client: &impl PostgresClient) -> Result<StoreStatus, StoreError> {
    let mut counts = Vec::new();
    for (name, sql) in COUNTS {
        counts.push((name, number(client, sql).await?));
    }
    let mut key_versions = Vec::new();
    for row in &query(client, COUNT_KEYS, &[]).await? {
        let version = u32::try_from(column::<i64>(row, 0)?).unwrap_or(u32::MAX);
        key_versions.push((version, column::<i64>(row, 1)?.unsigned_abs()));
    }
    let schema = number(client, SCHEMA).await?;
    Ok(StoreStatus {
        engine: "PostgreSQL",
        schema: u32::try_from(schema).unwrap_or_default(),
        key_versions,
        counts,
        sizes_bytes: vec![("database", number(client, SIZE).await?)],
    })
}

async fn number(client: &impl PostgresClient, sql: &str) -> Result<u64, StoreError> {
    let rows = query(client, sql, &[]).await?;
    let row = rows.first().ok_or(StoreError::Corrupt("a count has no row"))?;
    Ok(column::<i64>(row, 0)?.unsigned_abs())
}

const READY: &str = "
-- check_ready
SELECT current_setting('transaction_read_only') FROM directory_state WHERE one = 1";

/// A standby answers, and takes no writes.
pub(super) async fn check_ready(client: &impl PostgresClient) -> Result<(), StoreError> {
    let rows = query(client, READY, &[]).await?;
    match rows.first().map(|row| column::<&str>(row, 0)).transpose()? {
        Some("off") => Ok(()),
        Some(_) | None => Err(unavailable("PostgreSQL takes no writes")),
    }
}

/// Connections are counted as those of readers, for every one of them may read.
pub(super) fn connections(pool: &Pool) -> ReaderMeasures {
    let status = pool.status();
    let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    ReaderMeasures {
        busy: number(status.size.saturating_sub(status.available)),
        idle: number(status.available),
        opened: number(status.size),
    }
}
