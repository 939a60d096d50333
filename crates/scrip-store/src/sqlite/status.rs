//! What there is in the file, for the operator.

use std::{fs, path::Path};

use rusqlite::{Connection, Row};
use scrip_core::store::{StoreError, StoreStatus};

use crate::sqlite::{connection::schema_version, fault};

const COUNTS: [(&str, &str); 8] = [
    ("tenants", "-- count_tenants\nSELECT count(*) FROM tenants"),
    ("applications", "-- count_applications\nSELECT count(*) FROM applications"),
    ("api_keys", "-- count_api_keys\nSELECT count(*) FROM api_keys"),
    ("access_sessions", "-- count_access_sessions\nSELECT count(*) FROM access_sessions"),
    ("tokens", "-- count_tokens\nSELECT count(*) FROM tokens"),
    ("verification_codes", "-- count_cvcs\nSELECT count(*) FROM cvcs"),
    ("remembered_answers", "-- count_answers\nSELECT count(*) FROM answers"),
    ("audit_records", "-- count_audit\nSELECT count(*) FROM audit"),
];

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
    let bytes = |extension| {
        let file = path.with_extension(extension);
        fs::metadata(file).map(|it| it.len()).unwrap_or_default()
    };
    Ok(StoreStatus {
        engine: "embedded",
        schema: u32::try_from(schema_version(connection)?).unwrap_or_default(),
        key_versions,
        counts,
        sizes_bytes: vec![("database", bytes("db")), ("write_ahead_log", bytes("db-wal"))],
    })
}
