//! What leaves the file because its time is over. Each function is one small piece of work, so that
//! no writer waits long behind it; and since it looks and removes in one transaction, any number of
//! processes can sweep one file.

use rusqlite::{Connection, Row, params};
use scrip_core::{
    audit::{AuditRecord, Operation},
    id::TenantId,
    store::{StoreError, TokenRecord},
    time::Timestamp,
};

use crate::sqlite::{
    answers::insert_audit,
    fault,
    row::{stored_token, token_columns, uuid},
    tokens::{execute, remove, remove_row},
};

/// A token has half a dozen entries in as many places of the file: some tens of microseconds each.
const TOKENS_AT_ONCE: i64 = 16;
/// A code lies beside its neighbours.
const CVCS_AT_ONCE: i64 = 128;

const LIST_EXPIRED: &str = concat!(
    "-- list_expired\nSELECT ",
    token_columns!(", tokens.tenant"),
    " WHERE tokens.expires_at IS NOT NULL AND tokens.expires_at <= ?1
      ORDER BY tokens.expires_at LIMIT ?2"
);

/// A token that has to go.
struct Expired {
    seq: i64,
    tenant: TenantId,
    id: String,
    /// Nothing when somebody altered the row, which must not keep the others from going.
    record: Option<TokenRecord>,
}

pub(super) fn sweep_tokens(
    connection: &Connection,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let expired = {
        let mut statement = connection.prepare_cached(LIST_EXPIRED).map_err(fault)?;
        let mut rows = statement.query((ended.unix_ms, TOKENS_AT_ONCE)).map_err(fault)?;
        let mut expired = Vec::new();
        while let Some(row) = rows.next().map_err(fault)? {
            expired.push(read(row)?);
        }
        expired
    };
    for it in &expired {
        match &it.record {
            Some(record) => remove(connection, it.tenant, it.seq, record)?,
            None => remove_row(connection, it.seq)?,
        }
        insert_audit(connection, it.tenant, audit, &it.id, "expired")?;
    }
    Ok(expired.len())
}

fn read(row: &Row<'_>) -> Result<Expired, StoreError> {
    let record = match stored_token(row) {
        Ok((_, token)) => Some(token.record),
        Err(StoreError::Corrupt(_)) => None,
        Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => return Err(error),
    };
    let tenant: Vec<u8> = row.get(15).map_err(fault)?;
    Ok(Expired {
        seq: row.get(0).map_err(fault)?,
        tenant: TenantId(uuid(tenant.try_into().unwrap_or_default())),
        id: row.get(1).map_err(fault)?,
        record,
    })
}

/// An expired token that is in the way of a new one goes at once, and leaves the same record.
pub(super) fn expire(
    connection: &Connection,
    tenant: TenantId,
    (seq, record): (i64, &TokenRecord),
    now: Timestamp,
) -> Result<(), StoreError> {
    let audit = AuditRecord::of_vault(Operation::ExpireToken, now);
    remove(connection, tenant, seq, record)?;
    insert_audit(connection, tenant, &audit, record.id.as_str(), "expired")
}

const SWEEP_CVCS: &str = "
-- sweep_cvcs
DELETE FROM cvcs WHERE token IN (
    SELECT token FROM cvcs WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)";

/// What is unlinked is overwritten with zeros, also where nothing else is written.
pub(super) fn sweep_cvcs(connection: &Connection, ended: Timestamp) -> Result<usize, StoreError> {
    connection.execute_batch("PRAGMA secure_delete = ON").map_err(fault)?;
    let erased = execute(connection, SWEEP_CVCS, (ended.unix_ms, CVCS_AT_ONCE));
    connection.execute_batch("PRAGMA secure_delete = FAST").map_err(fault)?;
    erased
}

const NOTE_TIME: &str = "
-- note_time
INSERT INTO clock_state (one, at) VALUES (1, ?1)
ON CONFLICT (one) DO UPDATE SET at = max(at, ?1)";

pub(super) fn note_time(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    execute(connection, NOTE_TIME, params![now.unix_ms]).map(drop)
}

const LATEST_TIME: &str = "
-- latest_time
SELECT max(at) FROM (
    SELECT at FROM clock_state
    UNION ALL SELECT at FROM (SELECT at FROM audit ORDER BY seq DESC LIMIT 1)
)";

pub(super) fn latest_time(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let latest: Option<i64> =
        connection.query_row(LATEST_TIME, [], |row| row.get(0)).map_err(fault)?;
    Ok(latest.map(|unix_ms| Timestamp { unix_ms }))
}
