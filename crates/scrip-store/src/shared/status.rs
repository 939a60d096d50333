//! Row counts for the operator.

use scrip_core::{policy::ENTITIES, types::StoreError};

use crate::sql::{ColumnReader, Parameter, Statements, read_required};

/// The other counted tables, each with the name of the count.
const OTHER_TABLES: [(&str, &str); 6] = [
    ("tokens", "tokens"),
    ("token_intents", "token_intents"),
    ("verification_codes", "cvcs"),
    ("threeds_sessions", "threeds_sessions"),
    ("webhook_deliveries", "deliveries"),
    ("idempotency_records", "idempotency_records"),
];

/// The name of each count and its statement.
pub(crate) fn count_statements() -> impl Iterator<Item = (&'static str, String)> {
    let tables = ENTITIES.map(|it| (it.table, it.table)).into_iter().chain(OTHER_TABLES);
    let statement = |it| format!("-- count_{it}\nSELECT count(*) FROM {it}");
    tables.map(move |(name, table)| (name, statement(table)))
}

/// Counts the rows of the tables, except the logs.
pub(crate) async fn list_counts(
    client: &impl Statements,
) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let mut counts = Vec::new();
    for (name, sql) in count_statements() {
        counts.push((name, query_number(client, &sql, &[]).await?));
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
pub(crate) async fn query_number(
    client: &impl Statements,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<u64, StoreError> {
    let decode_number = |row: &dyn ColumnReader| Ok(read_required::<i64>(row, 0)?.unsigned_abs());
    client
        .find(sql, parameters, decode_number)
        .await?
        .ok_or(StoreError::Corrupt("a count returned no row"))
}
