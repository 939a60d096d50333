//! What leaves the file because its time is over. Each function is one small piece of work, so that
//! no writer waits long behind it; and since it looks and removes in one transaction, any number of
//! processes can sweep one file.

use rusqlite::{Connection, Row, params_from_iter};
use scrip_core::{
    audit::AuditRecord,
    id::{SessionId, TenantId, TokenIntentId},
    store::{Ending, StoreError},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    rules::tokens::{rows::numbered_token, writes::TokenTransaction},
    sql::{Statements, WriteTransaction, delete_some, parameters, run_ready},
    sqlite::{
        engine::{
            connection::overwriting,
            statement::{execute, fault},
            transaction::Transaction,
        },
        tokens::writes::{remove_row, select_tokens},
    },
};

/// A token has half a dozen entries in as many places of the file, and whoever shares the commit
/// waits for all of them.
const ENDED_AT_ONCE: i64 = 8;
/// A code lies beside its neighbours.
const CVCS_AT_ONCE: i64 = 128;

/// What has ended, without tenants that are in the way.
macro_rules! list_ended {
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

const LIST_TOKENS: &str = list_ended!("list_ended_tokens", "tokens", "expires_at");
const LIST_INTENTS: &str = list_ended!("list_ended_intents", "token_intents", "expires_at");
const LIST_SESSIONS: &str = list_ended!("list_ended_sessions", "sessions", "ends_at");

/// A row's number, its tenant as the row has it, and its id.
struct EndedRow {
    seq: i64,
    tenant: Vec<u8>,
    id: Vec<u8>,
}

impl EndedRow {
    fn tenant(&self) -> TenantId {
        TenantId(uuid(&self.tenant))
    }
}

fn uuid(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}

fn list_ended(
    connection: &Connection,
    ending: Ending,
    ended: Timestamp,
    left_out: &[String],
) -> Result<Vec<EndedRow>, StoreError> {
    let sql = match ending {
        Ending::Token => LIST_TOKENS,
        Ending::TokenIntent => LIST_INTENTS,
        Ending::Session => LIST_SESSIONS,
    };
    let some = parameters![ended, left_out.join(" "), ENDED_AT_ONCE];
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let rows = statement.query_map(params_from_iter(&some), |row: &Row<'_>| {
        let (tenant, id) = (row.get(1)?, row.get_ref(2)?.as_bytes()?.to_vec());
        Ok(EndedRow { seq: row.get(0)?, tenant, id })
    });
    rows.and_then(Iterator::collect).map_err(fault)
}

const FIND_ENDED: &str = concat!("-- find_ended\n", select_tokens!(), " WHERE tokens.seq = $1");

const DELETE_INTENT: &str = "
-- delete_ended_token_intent
DELETE FROM token_intents WHERE seq = $1";

const DELETE_SESSION: &str = "
-- delete_ended_session
DELETE FROM sessions WHERE seq = $1";

/// Removes one, and leaves a record of it.
async fn end(
    transaction: &mut Transaction<'_>,
    ending: Ending,
    ended: &EndedRow,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let (tenant, EndedRow { seq, id, .. }) = (ended.tenant(), ended);
    let entity = match ending {
        Ending::Token => {
            end_token(transaction, tenant, *seq).await?;
            String::from_utf8_lossy(id).into_owned()
        }
        Ending::TokenIntent => {
            execute(transaction, DELETE_INTENT, &parameters![*seq])?;
            TokenIntentId(uuid(id)).to_string()
        }
        Ending::Session => {
            execute(transaction, DELETE_SESSION, &parameters![*seq])?;
            SessionId(uuid(id)).to_string()
        }
    };
    transaction.append(tenant, audit, &entity, "expired").await
}

async fn end_token(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    seq: i64,
) -> Result<(), StoreError> {
    match transaction.find(FIND_ENDED, &parameters![seq], numbered_token).await {
        Ok(Some(it)) => transaction.remove_token(tenant, seq, &it.token.record).await,
        // Whoever altered a row must not keep it here, nor those behind it.
        Ok(None) | Err(StoreError::Corrupt(_)) => remove_row(transaction, seq).await,
        Err(error @ (StoreError::Busy | StoreError::Answered | StoreError::Unavailable(_))) => {
            Err(error)
        }
    }
}

/// Some of them, all at once. Should that fail, then one by one, and without those of tenants who
/// are in the way: what of theirs cannot be recorded stays, and the others' goes.
pub(crate) fn sweep(
    transaction: &mut Transaction<'_>,
    ending: Ending,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let end =
        |within: &mut Transaction<'_>, it: &EndedRow| run_ready(end(within, ending, it, audit));
    let some = list_ended(transaction, ending, ended, &[])?;
    let Err(mut error) = some.iter().try_for_each(|it| end(transaction, it)) else {
        return Ok(some.len());
    };
    transaction.take_back()?;
    let mut left_out: Vec<String> = Vec::new();
    loop {
        let some = list_ended(transaction, ending, ended, &left_out)?;
        let mut removed = 0_usize;
        for it in &some {
            match transaction.or_nothing(|within| end(within, it)) {
                Ok(()) => removed = removed.saturating_add(1),
                Err(why) => {
                    left_out.push(hex(&it.tenant));
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02X}")).collect()
}

const SWEEP_CVCS: &str =
    delete_some!(sqlite, "sweep_cvcs", "cvcs", "expires_at <= $1 ORDER BY expires_at", "token");

const SWEEP_INTENT_CVCS: &str = delete_some!(
    sqlite,
    "sweep_intent_cvcs",
    "intent_cvcs",
    "expires_at <= $1 ORDER BY expires_at",
    "intent"
);

pub(crate) const STATEMENTS: &[&str] = &[
    LIST_TOKENS,
    LIST_INTENTS,
    LIST_SESSIONS,
    FIND_ENDED,
    DELETE_INTENT,
    DELETE_SESSION,
    SWEEP_CVCS,
    SWEEP_INTENT_CVCS,
];

pub(crate) fn sweep_cvcs(connection: &Connection, ended: Timestamp) -> Result<usize, StoreError> {
    let erase = |sql| execute(connection, sql, &parameters![ended, CVCS_AT_ONCE]);
    overwriting(connection, || Ok(erase(SWEEP_CVCS)?.saturating_add(erase(SWEEP_INTENT_CVCS)?)))
}
