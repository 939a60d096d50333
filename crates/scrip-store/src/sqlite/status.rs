//! What there is in the file, for the operator.

use std::{fs, path::Path};

use rusqlite::{Connection, Row};
use scrip_core::store::{StoreError, StoreStatus};

use crate::sqlite::{access::path_of, connection::schema_version, fault};

const COUNTS: [(&str, &str); 11] = [
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
    ("audit_records", COUNT_RECORDS),
];

/// Without going through them: numbers have no gaps. A number that somebody made too large to add
/// is no error.
const COUNT_RECORDS: &str = "
-- count_records
SELECT CAST(total(it.n - coalesce(pruned.n, 0)) AS INTEGER)
FROM audit_heads AS it LEFT JOIN audit_checkpoints AS pruned ON pruned.tenant = it.tenant";

pub(super) fn status(connection: &Connection, path: &Path) -> Result<StoreStatus, StoreError> {
    let mut counts = Vec::new();
    for (name, sql) in COUNTS {
        let count: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(fault)?;
        counts.push((name, count.unsigned_abs()));
    }
    let sql = "
-- count_tenant_keys
SELECT version, count(*) FROM tenant_keys GROUP BY version ORDER BY version";
    let mut statement = connection.prepare(sql).map_err(fault)?;
    let version = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
    let versions = statement.query_map([], version).map_err(fault)?;
    let key_versions = versions.collect::<Result<_, _>>().map_err(fault)?;
    let bytes = |extension| size(&path.with_extension(extension));
    Ok(StoreStatus {
        engine: "embedded",
        schema: u32::try_from(schema_version(connection)?).unwrap_or_default(),
        key_versions,
        counts,
        sizes_bytes: vec![("database", bytes("db")), ("write_ahead_log", bytes("db-wal"))],
    })
}

pub(super) fn with_access(
    mut status: StoreStatus,
    connection: &Connection,
    vault: &Path,
) -> Result<StoreStatus, StoreError> {
    let count: i64 = connection.query_row(COUNT_RECORDS, [], |row| row.get(0)).map_err(fault)?;
    status.counts.push(("access_records", count.unsigned_abs()));
    let path = path_of(vault);
    status.sizes_bytes.push(("access_log", size(&path)));
    status.sizes_bytes.push(("access_write_ahead_log", size(&path.with_extension("db-wal"))));
    Ok(status)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map(|it| it.len()).unwrap_or_default()
}
