//! Row counts for the operator.

use scrip_core::types::StoreError;

use crate::sql::{ColumnReader, Statements, read_required};

/// Name and statement of each count.
const COUNT_STATEMENTS: [(&str, &str); 13] = [
    ("tenants", "-- count_tenants\nSELECT count(*) FROM tenants"),
    ("applications", "-- count_applications\nSELECT count(*) FROM applications"),
    ("api_keys", "-- count_api_keys\nSELECT count(*) FROM api_keys"),
    ("proxies", "-- count_proxies\nSELECT count(*) FROM proxies"),
    ("webhooks", "-- count_webhooks\nSELECT count(*) FROM webhooks"),
    ("client_keys", "-- count_client_keys\nSELECT count(*) FROM client_keys"),
    ("access_sessions", "-- count_access_sessions\nSELECT count(*) FROM access_sessions"),
    ("tokens", "-- count_tokens\nSELECT count(*) FROM tokens"),
    ("token_intents", "-- count_token_intents\nSELECT count(*) FROM token_intents"),
    ("verification_codes", "-- count_cvcs\nSELECT count(*) FROM cvcs"),
    ("threeds_sessions", "-- count_threeds_sessions\nSELECT count(*) FROM threeds_sessions"),
    ("webhook_deliveries", "-- count_deliveries\nSELECT count(*) FROM deliveries"),
    (
        "idempotency_records",
        "-- count_idempotency_records\nSELECT count(*) FROM idempotency_records",
    ),
];

/// Counts the rows of the tables, except the logs.
pub(crate) async fn list_counts(
    client: &impl Statements,
) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let mut counts = Vec::new();
    for (name, sql) in COUNT_STATEMENTS {
        counts.push((name, query_number(client, sql).await?));
    }
    Ok(counts)
}

const COUNT_KEYS: &str = "
-- count_tenant_keys
SELECT version, count(*) FROM tenant_keys GROUP BY version ORDER BY version";

/// Lists the versions of sealing keys and the number of tenants with each version.
pub(crate) async fn list_key_versions(
    client: &impl Statements,
) -> Result<Vec<(u32, u64)>, StoreError> {
    let decode_version = |row: &dyn ColumnReader| {
        let version = u32::try_from(read_required::<i64>(row, 0)?).unwrap_or(u32::MAX);
        Ok((version, read_required::<i64>(row, 1)?.unsigned_abs()))
    };
    client.query(COUNT_KEYS, &[], decode_version).await
}

/// Runs a statement that returns one number.
pub(crate) async fn query_number(client: &impl Statements, sql: &str) -> Result<u64, StoreError> {
    let decode_number = |row: &dyn ColumnReader| Ok(read_required::<i64>(row, 0)?.unsigned_abs());
    client
        .find(sql, &[], decode_number)
        .await?
        .ok_or(StoreError::Corrupt("a count returned no row"))
}
