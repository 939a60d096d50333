//! What leaves the file because its time is over. Each function is one small piece of work, so that
//! no writer waits long behind it; and since it looks and removes in one transaction, any number of
//! processes can sweep one file.

use rusqlite::{Connection, Params};
use scrip_core::{
    audit::{AuditRecord, Operation},
    id::{SessionId, TenantId, TokenIntentId},
    store::{StoreError, TokenRecord},
    time::Timestamp,
};

use crate::sqlite::{
    audit::insert_audit,
    connection::overwriting,
    fault,
    row::{token_columns, uuid},
    tokens::{execute, first_token, remove, remove_row},
    transaction::Transaction,
};

/// A token has half a dozen entries in as many places of the file, and whoever shares the commit
/// waits for all of them.
const TOKENS_AT_ONCE: i64 = 8;
/// A code lies beside its neighbours.
const CVCS_AT_ONCE: i64 = 128;

const LIST_EXPIRED: &str = "
-- list_expired
SELECT seq, tenant, id FROM tokens WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

const LIST_EXPIRED_BUT: &str = "
-- list_expired_but
SELECT seq, tenant, id FROM tokens
WHERE expires_at <= ?1 AND instr(?3, hex(tenant)) = 0
ORDER BY expires_at LIMIT ?2";

const FIND_EXPIRED: &str =
    concat!("-- find_expired\nSELECT ", token_columns!(), " WHERE tokens.seq = ?1");

/// What has expired, whosever it is: its number, the tenant as its row has it, and the id.
struct Expired {
    seq: i64,
    tenant: Vec<u8>,
    id: Vec<u8>,
}

impl Expired {
    fn tenant(&self) -> TenantId {
        TenantId(uuid(self.tenant.as_slice().try_into().unwrap_or_default()))
    }
}

pub(super) fn sweep_tokens(
    transaction: &mut Transaction<'_>,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    sweep(transaction, ended, (LIST_EXPIRED, LIST_EXPIRED_BUT), |transaction, it| {
        let (tenant, Expired { seq, id, .. }) = (it.tenant(), it);
        match first_token(transaction, FIND_EXPIRED, [seq]) {
            Ok(Some((_, token))) => remove(transaction, tenant, *seq, &token.record)?,
            // Whoever altered a row must not keep it here, nor those behind it.
            Ok(None) | Err(StoreError::Corrupt(_)) => remove_row(transaction, *seq)?,
            Err(error @ (StoreError::Busy | StoreError::Answered | StoreError::Unavailable(_))) => {
                return Err(error);
            }
        }
        insert_audit(transaction, tenant, audit, &String::from_utf8_lossy(id), "expired")
    })
}

/// Some of them, all at once. Should that fail, then one by one, and without those of tenants who
/// are in the way: what of theirs cannot be recorded stays, and the others' goes.
fn sweep(
    transaction: &mut Transaction<'_>,
    ended: Timestamp,
    (list, list_but): (&str, &str),
    end: impl Fn(&mut Transaction<'_>, &Expired) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    let some = list_expired(transaction, list, (ended.unix_ms, TOKENS_AT_ONCE))?;
    let Err(mut error) = some.iter().try_for_each(|it| end(transaction, it)) else {
        return Ok(some.len());
    };
    transaction.take_back()?;
    let mut left_out: Vec<String> = Vec::new();
    loop {
        let but = left_out.join(" ");
        let some = list_expired(transaction, list_but, (ended.unix_ms, TOKENS_AT_ONCE, but))?;
        let mut ended = 0_usize;
        for it in &some {
            match transaction.or_nothing(|within| end(within, it)) {
                Ok(()) => ended = ended.saturating_add(1),
                Err(why) => {
                    left_out.push(hex(&it.tenant));
                    error = why;
                }
            }
        }
        if ended > 0 {
            return Ok(ended);
        }
        if some.is_empty() {
            return Err(error);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02X}")).collect()
}

fn list_expired(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Vec<Expired>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let rows = statement.query_map(parameters, |row| {
        let (tenant, id) = (row.get(1)?, row.get_ref(2)?.as_bytes()?.to_vec());
        Ok(Expired { seq: row.get(0)?, tenant, id })
    });
    rows.and_then(Iterator::collect).map_err(fault)
}

/// An expired token that is in the way of a new one goes at once, and leaves the same record.
pub(super) fn expire(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    (seq, record): (i64, &TokenRecord),
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let audit = audit.by_vault(Operation::ExpireToken);
    remove(transaction, tenant, seq, record)?;
    insert_audit(transaction, tenant, &audit, record.id.as_str(), "expired")
}

const LIST_EXPIRED_INTENTS: &str = "
-- list_expired_intents
SELECT seq, tenant, id FROM token_intents WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2";

const LIST_EXPIRED_INTENTS_BUT: &str = "
-- list_expired_intents_but
SELECT seq, tenant, id FROM token_intents
WHERE expires_at <= ?1 AND instr(?3, hex(tenant)) = 0
ORDER BY expires_at LIMIT ?2";

const DELETE_INTENT: &str = "
-- delete_intent
DELETE FROM token_intents WHERE seq = ?1";

pub(super) fn sweep_token_intents(
    transaction: &mut Transaction<'_>,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let lists = (LIST_EXPIRED_INTENTS, LIST_EXPIRED_INTENTS_BUT);
    sweep(transaction, ended, lists, |transaction, it| {
        let (tenant, Expired { seq, id, .. }) = (it.tenant(), it);
        let id = TokenIntentId(uuid(id.as_slice().try_into().unwrap_or_default()));
        execute(transaction, DELETE_INTENT, [seq])?;
        insert_audit(transaction, tenant, audit, &id.to_string(), "expired")
    })
}

const LIST_ENDED_SESSIONS: &str = "
-- list_ended_sessions
SELECT seq, tenant, id FROM sessions WHERE ends_at <= ?1 ORDER BY ends_at LIMIT ?2";

const LIST_ENDED_SESSIONS_BUT: &str = "
-- list_ended_sessions_but
SELECT seq, tenant, id FROM sessions
WHERE ends_at <= ?1 AND instr(?3, hex(tenant)) = 0
ORDER BY ends_at LIMIT ?2";

const DELETE_SESSION: &str = "
-- delete_session
DELETE FROM sessions WHERE seq = ?1";

pub(super) fn sweep_sessions(
    transaction: &mut Transaction<'_>,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let lists = (LIST_ENDED_SESSIONS, LIST_ENDED_SESSIONS_BUT);
    sweep(transaction, ended, lists, |transaction, it| {
        let (tenant, Expired { seq, id, .. }) = (it.tenant(), it);
        let id = SessionId(uuid(id.as_slice().try_into().unwrap_or_default()));
        execute(transaction, DELETE_SESSION, [seq])?;
        insert_audit(transaction, tenant, audit, &id.to_string(), "expired")
    })
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
