//! What there is in a vault, for the operator.

use scrip_core::store::StoreError;

use crate::sql::{ColumnReader, Statements, required};

const COUNTS: [(&str, &str); 10] = [
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
];

/// Of every table that an operator knows, but for the logs.
pub(crate) async fn list_counts(
    client: &impl Statements,
) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let mut counts = Vec::new();
    for (name, sql) in COUNTS {
        counts.push((name, query_number(client, sql).await?));
    }
    Ok(counts)
}

const COUNT_KEYS: &str = "
-- count_tenant_keys
SELECT version, count(*) FROM tenant_keys GROUP BY version ORDER BY version";

/// Versions of tenants' sealing keys, and how many tenants have each.
pub(crate) async fn list_key_versions(
    client: &impl Statements,
) -> Result<Vec<(u32, u64)>, StoreError> {
    let version = |row: &dyn ColumnReader| {
        let version = u32::try_from(required::<i64>(row, 0)?).unwrap_or(u32::MAX);
        Ok((version, required::<i64>(row, 1)?.unsigned_abs()))
    };
    client.query(COUNT_KEYS, &[], version).await
}

/// The number that a statement gives.
pub(crate) async fn query_number(client: &impl Statements, sql: &str) -> Result<u64, StoreError> {
    let number = |row: &dyn ColumnReader| Ok(required::<i64>(row, 0)?.unsigned_abs());
    client.find(sql, &[], number).await?.ok_or(StoreError::Corrupt("a count has no row"))
}
