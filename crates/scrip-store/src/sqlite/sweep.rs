//! What leaves the file because its time is over. Each function is one small piece of work, so that
//! no writer waits long behind it; and since it looks and removes in one transaction, any number of
//! processes can sweep one file.

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, Operation},
    id::{TenantId, TokenIntentId},
    store::{StoreError, TokenRecord},
    time::Timestamp,
};

use crate::sqlite::{
    audit::insert_audit,
    connection::overwriting,
    fault,
    row::{token_columns, uuid},
    tokens::{execute, first_token, remove, remove_row},
};

/// A token has half a dozen entries in as many places of the file, and whoever shares the commit
/// waits for all of them.
const TOKENS_AT_ONCE: i64 = 8;
/// A code lies beside its neighbours.
const CVCS_AT_ONCE: i64 = 128;

const LIST_EXPIRED: &str = "
-- list_expired
SELECT seq, tenant, id FROM tokens WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

const FIND_EXPIRED: &str =
    concat!("-- find_expired\nSELECT ", token_columns!(), " WHERE tokens.seq = ?1");

pub(super) fn sweep_tokens(
    connection: &Connection,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let expired = list_expired(connection, ended)?;
    for (seq, tenant, id) in &expired {
        match first_token(connection, FIND_EXPIRED, [seq]) {
            Ok(Some((_, token))) => remove(connection, *tenant, *seq, &token.record)?,
            // Whoever altered a row must not keep it here, nor those behind it.
            Ok(None) | Err(StoreError::Corrupt(_)) => remove_row(connection, *seq)?,
            Err(error @ (StoreError::Busy | StoreError::Unavailable(_))) => return Err(error),
        }
        insert_audit(connection, *tenant, audit, id, "expired")?;
    }
    Ok(expired.len())
}

fn list_expired(
    connection: &Connection,
    ended: Timestamp,
) -> Result<Vec<(i64, TenantId, String)>, StoreError> {
    let mut statement = connection.prepare_cached(LIST_EXPIRED).map_err(fault)?;
    let rows = statement.query_map((ended.unix_ms, TOKENS_AT_ONCE), |row| {
        let tenant: Vec<u8> = row.get(1)?;
        let tenant = TenantId(uuid(tenant.try_into().unwrap_or_default()));
        Ok((row.get(0)?, tenant, row.get(2)?))
    });
    rows.and_then(Iterator::collect).map_err(fault)
}

/// An expired token that is in the way of a new one goes at once, and leaves the same record.
pub(super) fn expire(
    connection: &Connection,
    tenant: TenantId,
    (seq, record): (i64, &TokenRecord),
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let audit = audit.by_vault(Operation::ExpireToken);
    remove(connection, tenant, seq, record)?;
    insert_audit(connection, tenant, &audit, record.id.as_str(), "expired")
}

const LIST_EXPIRED_INTENTS: &str = "
-- list_expired_intents
SELECT seq, tenant, id FROM token_intents WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

const DELETE_INTENT: &str = "
-- delete_intent
DELETE FROM token_intents WHERE seq = ?1";

pub(super) fn sweep_token_intents(
    connection: &Connection,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(LIST_EXPIRED_INTENTS).map_err(fault)?;
    let rows = statement.query_map((ended.unix_ms, TOKENS_AT_ONCE), |row| {
        let (tenant, id): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
        let tenant = TenantId(uuid(tenant.try_into().unwrap_or_default()));
        Ok((row.get(0)?, tenant, TokenIntentId(uuid(id.try_into().unwrap_or_default()))))
    });
    let expired: Vec<(i64, _, _)> = rows.and_then(Iterator::collect).map_err(fault)?;
    for (seq, tenant, id) in &expired {
        execute(connection, DELETE_INTENT, [seq])?;
        insert_audit(connection, *tenant, audit, &id.to_string(), "expired")?;
    }
    Ok(expired.len())
}

const SWEEP_CVCS: &str = "
-- sweep_cvcs
DELETE FROM cvcs WHERE token IN (
    SELECT token FROM cvcs WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)";

const SWEEP_INTENT_CVCS: &str = "
-- sweep_intent_cvcs
DELETE FROM intent_cvcs WHERE intent IN (
    SELECT intent FROM intent_cvcs WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)";

pub(super) fn sweep_cvcs(connection: &Connection, ended: Timestamp) -> Result<usize, StoreError> {
    let erase = |sql| execute(connection, sql, (ended.unix_ms, CVCS_AT_ONCE));
    overwriting(connection, || Ok(erase(SWEEP_CVCS)?.saturating_add(erase(SWEEP_INTENT_CVCS)?)))
}
