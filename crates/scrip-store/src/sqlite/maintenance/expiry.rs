//! Deletes expired rows. Each function is one small queued write, so that no other write waits
//! long. Each function finds and deletes rows in one transaction, so any number of processes can
//! run it on one file.

use rusqlite::{Connection, Row, params_from_iter};
use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    events::ExpiryEvents,
    store::ExpiringEntity,
    types::{
        EventType, StoreError,
        id::{TenantId, ThreeDsSessionId, TokenId, TokenIntentId},
    },
};
use scrip_types::hex::encode_hex;
use uuid::Uuid;

use crate::{
    shared::tokens::{rows::decode_numbered_token, writes::TokenTransaction},
    sql::{ColumnReader, Statements, WriteTransaction, parameters, read_required, run_sync_future},
    sqlite::{
        engine::{
            connection::with_secure_delete,
            statement::{execute, store_error},
            transaction::SqliteTransaction,
        },
        tokens::writes::{delete_token_row, select_tokens},
    },
};

/// Maximum number of rows per transaction. A token has about six index entries on different pages,
/// and all writes of the same commit wait for their deletion.
const DELETE_BATCH_SIZE: i64 = 8;
/// Maximum number of CVCs per statement. Adjacent CVCs share pages, so a larger batch is fast.
const ERASE_BATCH_SIZE: i64 = 128;

/// Lists expired rows, except rows of the excluded tenants.
const LIST_EXPIRED_TOKENS: &str = "
-- list_expired_tokens
SELECT seq, tenant, id FROM tokens WHERE expires_at <= $1 AND instr($2, hex(tenant)) = 0
ORDER BY expires_at LIMIT $3";
const LIST_EXPIRED_INTENTS: &str = "
-- list_expired_intents
SELECT seq, tenant, id FROM token_intents WHERE expires_at <= $1 AND instr($2, hex(tenant)) = 0
ORDER BY expires_at LIMIT $3";
const LIST_EXPIRED_SESSIONS: &str = "
-- list_expired_threeds_sessions
SELECT seq, tenant, id FROM threeds_sessions WHERE deletes_at <= $1 AND instr($2, hex(tenant)) = 0
ORDER BY deletes_at LIMIT $3";

/// A row's number, its stored tenant, and its id.
struct ExpiredRow {
    seq: i64,
    tenant: Vec<u8>,
    id: Vec<u8>,
}

impl ExpiredRow {
    fn tenant(&self) -> TenantId {
        TenantId(uuid_or_nil(&self.tenant))
    }
}

fn uuid_or_nil(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}

fn list_expired(
    connection: &Connection,
    kind: ExpiringEntity,
    cutoff: Timestamp,
    excluded_tenants: &[String],
) -> Result<Vec<ExpiredRow>, StoreError> {
    let sql = match kind {
        ExpiringEntity::Token => LIST_EXPIRED_TOKENS,
        ExpiringEntity::TokenIntent => LIST_EXPIRED_INTENTS,
        ExpiringEntity::ThreeDsSession => LIST_EXPIRED_SESSIONS,
    };
    let parameters = parameters![cutoff, excluded_tenants.join(" "), DELETE_BATCH_SIZE];
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map(params_from_iter(&parameters), |row: &Row<'_>| {
        let (tenant, id) = (row.get(1)?, row.get_ref(2)?.as_bytes()?.to_vec());
        Ok(ExpiredRow { seq: row.get(0)?, tenant, id })
    });
    rows.and_then(Iterator::collect).map_err(store_error)
}

pub(crate) const FIND_EXPIRED_TOKEN: &str =
    concat!("-- find_expired_token\n", select_tokens!(), "\nWHERE tokens.seq = $1");

const DELETE_EXPIRED_INTENT: &str = "
-- delete_expired_token_intent
DELETE FROM token_intents WHERE seq = $1";

const DELETE_EXPIRED_SESSION: &str = "
-- delete_expired_threeds_session
DELETE FROM threeds_sessions WHERE seq = $1";

/// Deletes one row, and writes its audit record and its deliveries.
async fn delete_expired_row(
    transaction: &mut SqliteTransaction<'_>,
    kind: ExpiringEntity,
    row: &ExpiredRow,
    audit: &AuditRecord,
    events: &ExpiryEvents,
) -> Result<(), StoreError> {
    let (tenant, ExpiredRow { seq, id, .. }) = (row.tenant(), row);
    let entity_id = match kind {
        ExpiringEntity::Token => {
            delete_expired_token(transaction, tenant, *seq).await?;
            let id = String::from_utf8_lossy(id).into_owned();
            if let Ok(token) = TokenId::parse(&id) {
                transaction.insert_deliveries(&events.raise_expired_token(tenant, &token)).await?;
            }
            id
        }
        ExpiringEntity::TokenIntent => {
            execute(transaction, DELETE_EXPIRED_INTENT, &parameters![*seq])?;
            TokenIntentId(uuid_or_nil(id)).to_string()
        }
        ExpiringEntity::ThreeDsSession => {
            execute(transaction, DELETE_EXPIRED_SESSION, &parameters![*seq])?;
            ThreeDsSessionId(uuid_or_nil(id)).to_string()
        }
    };
    transaction.append_audit_record(tenant, audit, &entity_id, "expired").await
}

async fn delete_expired_token(
    transaction: &mut SqliteTransaction<'_>,
    tenant: TenantId,
    seq: i64,
) -> Result<(), StoreError> {
    match transaction.find(FIND_EXPIRED_TOKEN, &parameters![seq], decode_numbered_token).await {
        Ok(Some(it)) => transaction.remove_token(tenant, seq, &it.token.record).await,
        // An altered row must not prevent its own deletion or the deletion of later rows.
        Ok(None) | Err(StoreError::Corrupt(_)) => delete_token_row(transaction, seq).await,
        Err(
            error @ (StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Unavailable(_)),
        ) => Err(error),
    }
}

/// Deletes a batch. If that fails, deletes rows one by one and excludes each tenant with a row that
/// cannot be deleted: no row is deleted without an audit record, and the rows of other tenants are
/// deleted.
pub(crate) fn delete_expired_rows(
    transaction: &mut SqliteTransaction<'_>,
    kind: ExpiringEntity,
    cutoff: Timestamp,
    audit: &AuditRecord,
    events: &ExpiryEvents,
) -> Result<usize, StoreError> {
    let delete = |transaction: &mut SqliteTransaction<'_>, row: &ExpiredRow| {
        run_sync_future(delete_expired_row(transaction, kind, row, audit, events))
    };
    let rows = list_expired(transaction, kind, cutoff, &[])?;
    let Err(mut last_error) = rows.iter().try_for_each(|it| delete(transaction, it)) else {
        return Ok(rows.len());
    };
    transaction.roll_back_work()?;
    let mut excluded_tenants: Vec<String> = Vec::new();
    loop {
        let rows = list_expired(transaction, kind, cutoff, &excluded_tenants)?;
        let mut deleted = 0_usize;
        for row in &rows {
            match transaction.in_savepoint(|transaction| delete(transaction, row)) {
                Ok(()) => deleted = deleted.saturating_add(1),
                Err(error) => {
                    excluded_tenants.push(encode_hex(&row.tenant).to_uppercase());
                    last_error = error;
                }
            }
        }
        if deleted > 0 {
            return Ok(deleted);
        }
        if rows.is_empty() {
            return Err(last_error);
        }
    }
}

const ERASE_EXPIRED_CVCS: &str = "
-- erase_expired_cvcs
DELETE FROM cvcs WHERE token IN (
    SELECT token FROM cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";

/// As [`ERASE_EXPIRED_CVCS`]; returns the numbers of the tokens.
const ERASE_AND_LIST_EXPIRED_CVCS: &str = "
-- erase_and_list_expired_cvcs
DELETE FROM cvcs WHERE token IN (
    SELECT token FROM cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)
RETURNING token";

const FIND_CVC_OWNER: &str = "
-- find_cvc_owner
SELECT tenant, id FROM tokens WHERE seq = $1";

const ERASE_EXPIRED_INTENT_CVCS: &str = "
-- erase_expired_intent_cvcs
DELETE FROM intent_cvcs WHERE intent IN (
    SELECT intent FROM intent_cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";

/// If no tenant wants the event of an expired CVC, the tokens are not looked up.
pub(crate) fn erase_expired_cvcs(
    transaction: &mut SqliteTransaction<'_>,
    cutoff: Timestamp,
    events: &ExpiryEvents,
) -> Result<usize, StoreError> {
    let tenants = events.subscribed_tenants(EventType::TokenPropertyExpired);
    let limits = parameters![cutoff, ERASE_BATCH_SIZE];
    let mut deliveries = Vec::new();
    let connection: &Connection = transaction;
    let erased = with_secure_delete(connection, || {
        let intent_cvcs = execute(connection, ERASE_EXPIRED_INTENT_CVCS, &limits)?;
        if tenants.is_empty() {
            return Ok(
                execute(connection, ERASE_EXPIRED_CVCS, &limits)?.saturating_add(intent_cvcs)
            );
        }
        let decode_number = |row: &dyn ColumnReader| read_required::<i64>(row, 0);
        let erased = connection.query(ERASE_AND_LIST_EXPIRED_CVCS, &limits, decode_number);
        let erased = run_sync_future(erased)?;
        for number in &erased {
            let key = parameters![*number];
            let owner = connection.find(FIND_CVC_OWNER, &key, decode_owner);
            if let Some((tenant, token)) = run_sync_future(owner)?.flatten()
                && tenants.contains(&tenant)
            {
                deliveries.extend(events.raise_expired_cvc(tenant, &token));
            }
        }
        Ok(erased.len().saturating_add(intent_cvcs))
    })?;
    run_sync_future(transaction.insert_deliveries(&deliveries))?;
    Ok(erased)
}

/// An altered row must not prevent the deletion of the CVC.
fn decode_owner(row: &dyn ColumnReader) -> Result<Option<(TenantId, TokenId)>, StoreError> {
    Ok(read_required(row, 0).ok().zip(read_required(row, 1).ok()))
}
