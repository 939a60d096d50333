//! What leaves the file because its time is over. Each function is one small piece of work, so that
//! no writer waits long behind it; and since it looks and removes in one transaction, any number of
//! processes can sweep one file.

use rusqlite::{Connection, Row, params_from_iter};
use scrip_core::{
    audit::AuditRecord,
    id::{TenantId, ThreeDsSessionId, TokenIntentId},
    store::{ExpiringEntity, StoreError},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    shared::tokens::{rows::decode_numbered_token, writes::TokenTransaction},
    sql::{Statements, WriteTransaction, delete_some, parameters, run_ready},
    sqlite::{
        engine::{
            connection::with_secure_delete,
            statement::{execute, store_error},
            transaction::SqliteTransaction,
        },
        tokens::writes::{delete_token_row, select_tokens},
    },
};

/// A token has half a dozen entries in as many places of the file, and whoever shares the commit
/// waits for all of them.
const DELETE_BATCH: i64 = 8;
/// A code lies beside its neighbours.
const ERASE_BATCH: i64 = 128;

/// What has ended, without tenants that are in the way.
macro_rules! list_expired {
    ($name:literal, $table:literal, $end:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT seq, tenant, id FROM ",
            $table,
            " WHERE ",
            $end,
            " <= $1 AND instr($2, hex(tenant)) = 0 ORDER BY ",
            $end,
            " LIMIT $3"
        )
    };
}

const LIST_EXPIRED_TOKENS: &str = list_expired!("list_ended_tokens", "tokens", "expires_at");
const LIST_EXPIRED_INTENTS: &str =
    list_expired!("list_ended_intents", "token_intents", "expires_at");
const LIST_EXPIRED_SESSIONS: &str = list_expired!("list_ended_sessions", "sessions", "ends_at");

/// A row's number, its tenant as the row has it, and its id.
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
    ended: Timestamp,
    left_out: &[String],
) -> Result<Vec<ExpiredRow>, StoreError> {
    let sql = match kind {
        ExpiringEntity::Token => LIST_EXPIRED_TOKENS,
        ExpiringEntity::TokenIntent => LIST_EXPIRED_INTENTS,
        ExpiringEntity::ThreeDsSession => LIST_EXPIRED_SESSIONS,
    };
    let some = parameters![ended, left_out.join(" "), DELETE_BATCH];
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map(params_from_iter(&some), |row: &Row<'_>| {
        let (tenant, id) = (row.get(1)?, row.get_ref(2)?.as_bytes()?.to_vec());
        Ok(ExpiredRow { seq: row.get(0)?, tenant, id })
    });
    rows.and_then(Iterator::collect).map_err(store_error)
}

const FIND_EXPIRED_TOKEN: &str =
    concat!("-- find_ended\n", select_tokens!(), " WHERE tokens.seq = $1");

const DELETE_EXPIRED_INTENT: &str = "
-- delete_ended_token_intent
DELETE FROM token_intents WHERE seq = $1";

const DELETE_EXPIRED_SESSION: &str = "
-- delete_ended_session
DELETE FROM sessions WHERE seq = $1";

/// Removes one, and leaves a record of it.
async fn delete_expired_row(
    transaction: &mut SqliteTransaction<'_>,
    kind: ExpiringEntity,
    row: &ExpiredRow,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let (tenant, ExpiredRow { seq, id, .. }) = (row.tenant(), row);
    let entity = match kind {
        ExpiringEntity::Token => {
            delete_expired_token(transaction, tenant, *seq).await?;
            String::from_utf8_lossy(id).into_owned()
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
    transaction.append_audit_record(tenant, audit, &entity, "expired").await
}

async fn delete_expired_token(
    transaction: &mut SqliteTransaction<'_>,
    tenant: TenantId,
    seq: i64,
) -> Result<(), StoreError> {
    match transaction.find(FIND_EXPIRED_TOKEN, &parameters![seq], decode_numbered_token).await {
        Ok(Some(it)) => transaction.remove_token(tenant, seq, &it.token.record).await,
        // Whoever altered a row must not keep it here, nor those behind it.
        Ok(None) | Err(StoreError::Corrupt(_)) => delete_token_row(transaction, seq).await,
        Err(
            error @ (StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Unavailable(_)),
        ) => Err(error),
    }
}

/// Some of them, all at once. Should that fail, then one by one, and without those of tenants who
/// are in the way: what of theirs cannot be recorded stays, and the others' goes.
pub(crate) fn delete_expired_rows(
    transaction: &mut SqliteTransaction<'_>,
    kind: ExpiringEntity,
    expired_by: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let end = |within: &mut SqliteTransaction<'_>, it: &ExpiredRow| {
        run_ready(delete_expired_row(within, kind, it, audit))
    };
    let some = list_expired(transaction, kind, expired_by, &[])?;
    let Err(mut error) = some.iter().try_for_each(|it| end(transaction, it)) else {
        return Ok(some.len());
    };
    transaction.roll_back_work()?;
    let mut left_out: Vec<String> = Vec::new();
    loop {
        let some = list_expired(transaction, kind, expired_by, &left_out)?;
        let mut removed = 0_usize;
        for it in &some {
            match transaction.in_savepoint(|within| end(within, it)) {
                Ok(()) => removed = removed.saturating_add(1),
                Err(why) => {
                    left_out.push(encode_hex(&it.tenant));
                    error = why;
                }
            }
        }
        if removed > 0 {
            return Ok(removed);
        }
        if some.is_empty() {
            return Err(error);
        }
    }
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02X}")).collect()
}

const ERASE_EXPIRED_CVCS: &str =
    delete_some!(sqlite, "sweep_cvcs", "cvcs", "expires_at <= $1 ORDER BY expires_at", "token");

const ERASE_EXPIRED_INTENT_CVCS: &str = delete_some!(
    sqlite,
    "sweep_intent_cvcs",
    "intent_cvcs",
    "expires_at <= $1 ORDER BY expires_at",
    "intent"
);

pub(crate) const STATEMENTS: &[&str] = &[
    LIST_EXPIRED_TOKENS,
    LIST_EXPIRED_INTENTS,
    LIST_EXPIRED_SESSIONS,
    FIND_EXPIRED_TOKEN,
    DELETE_EXPIRED_INTENT,
    DELETE_EXPIRED_SESSION,
    ERASE_EXPIRED_CVCS,
    ERASE_EXPIRED_INTENT_CVCS,
];

pub(crate) fn erase_expired_cvcs(
    connection: &Connection,
    expired_by: Timestamp,
) -> Result<usize, StoreError> {
    let erase = |sql| execute(connection, sql, &parameters![expired_by, ERASE_BATCH]);
    with_secure_delete(connection, || {
        Ok(erase(ERASE_EXPIRED_CVCS)?.saturating_add(erase(ERASE_EXPIRED_INTENT_CVCS)?))
    })
}
