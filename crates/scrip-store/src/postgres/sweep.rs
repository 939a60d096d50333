//! What leaves because its time is over. Each step is a transaction of one tenant, as every write is,
//! so any number of nodes can sweep: whoever comes second finds others, or another tenant's.

use scrip_core::{
    audit::{AuditRecord, chain::Log},
    id::{SessionId, TenantId, TokenIntentId},
    store::StoreError,
    time::Timestamp,
};
use tokio_postgres::Row;

use crate::postgres::{
    pool::Pool,
    row::{column, stored_token, token_columns},
    scope::Scope,
    statement::{PostgresClient, Single, count, execute, query},
    tokens::{from_tokens, remove, remove_row},
    transaction::Transaction,
};

/// Whoever else writes for the tenant waits for all of them.
const AT_ONCE: i64 = 32;
const CVCS_AT_ONCE: i64 = 256;

/// What ends by itself and leaves a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Token,
    TokenIntent,
    Session,
}

/// The tenant of what ended first, without those that are in the way.
macro_rules! find_ended {
    ($name:literal, $table:literal, $end:literal) => {
        concat!(
            "-- find_ended_",
            $name,
            "\nSELECT tenant FROM ",
            $table,
            " WHERE ",
            $end,
            " <= $1 AND tenant <> ALL ($2) ORDER BY ",
            $end,
            " LIMIT 1"
        )
    };
}

const LIST_TOKENS: &str = concat!(
    "-- list_ended_tokens\nSELECT ",
    token_columns!(),
    from_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.expires_at <= $2
      ORDER BY tokens.expires_at, tokens.number LIMIT $3"
);

const LIST_INTENTS: &str = "
-- list_ended_token_intents
SELECT id FROM token_intents WHERE tenant = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3";

const LIST_SESSIONS: &str = "
-- list_ended_sessions
SELECT id FROM sessions WHERE tenant = $1 AND ends_at <= $2 ORDER BY ends_at LIMIT $3";

const DELETE_INTENT: &str = "
-- delete_ended_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2";

const DELETE_SESSION: &str = "
-- delete_ended_session
DELETE FROM sessions WHERE tenant = $1 AND id = $2";

impl Ending {
    fn find(self) -> &'static str {
        match self {
            Self::Token => find_ended!("token", "tokens", "expires_at"),
            Self::TokenIntent => find_ended!("token_intent", "token_intents", "expires_at"),
            Self::Session => find_ended!("session", "sessions", "ends_at"),
        }
    }

    fn list(self) -> &'static str {
        match self {
            Self::Token => LIST_TOKENS,
            Self::TokenIntent => LIST_INTENTS,
            Self::Session => LIST_SESSIONS,
        }
    }

    async fn end(
        self,
        transaction: &mut Transaction,
        row: &Row,
        audit: &AuditRecord,
    ) -> Result<(), StoreError> {
        let tenant = transaction.tenant.0;
        match self {
            Self::Token => {
                let number = column(row, 0)?;
                match stored_token(row) {
                    Ok((_, token)) => remove(transaction, number, &token.record).await?,
                    // Whoever altered a row must not keep it here, nor those behind it.
                    Err(_) => remove_row(transaction, number).await?,
                }
                transaction.append_record(audit, column(row, 1)?, "expired");
            }
            Self::TokenIntent => {
                let id = TokenIntentId(column(row, 0)?);
                transaction.execute_raw(DELETE_INTENT, &[&tenant, &id.0]).await?;
                transaction.append_record(audit, &id.to_string(), "expired");
            }
            Self::Session => {
                let id = SessionId(column(row, 0)?);
                transaction.execute_raw(DELETE_SESSION, &[&tenant, &id.0]).await?;
                transaction.append_record(audit, &id.to_string(), "expired");
            }
        }
        Ok(())
    }
}

/// Some of one tenant's. What of a tenant cannot be ended stays, and the others' goes.
pub(super) async fn sweep(
    pool: &Pool,
    ending: Ending,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut left_out = Vec::new();
    let mut failed = None;
    loop {
        let every = Single::new(pool, Scope::every_tenant());
        let found = query(&every, ending.find(), &[&ended.unix_ms, &left_out]).await?;
        let Some(row) = found.first() else { return failed.map_or(Ok(0), Err) };
        let tenant = TenantId(column(row, 0)?);
        match sweep_tenant(pool, (ending, tenant), ended, audit).await {
            // Somebody else was there first.
            Ok(0) => (),
            Ok(some) => return Ok(some),
            Err(error) => {
                left_out.push(tenant.0);
                failed = Some(error);
            }
        }
    }
}

async fn sweep_tenant(
    pool: &Pool,
    (ending, tenant): (Ending, TenantId),
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut transaction = Transaction::begin(pool, (Log::Audit, tenant), 0).await?;
    let rows = transaction.rows(ending.list(), &[&tenant.0, &ended.unix_ms, &AT_ONCE]).await?;
    for row in &rows {
        ending.end(&mut transaction, row, audit).await?;
    }
    transaction.commit().await?;
    Ok(rows.len())
}

const SWEEP_CVCS: [&str; 2] = [
    "
-- sweep_cvcs
DELETE FROM cvcs WHERE (tenant, token) IN (
    SELECT tenant, token FROM cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)",
    "
-- sweep_intent_cvcs
DELETE FROM intent_cvcs WHERE (tenant, intent) IN (
    SELECT tenant, intent FROM intent_cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
    FOR UPDATE SKIP LOCKED
)",
];

pub(super) async fn sweep_cvcs(client: &Single<'_>, ended: Timestamp) -> Result<usize, StoreError> {
    let mut erased = 0_u64;
    for sql in SWEEP_CVCS {
        erased =
            erased.saturating_add(execute(client, sql, &[&ended.unix_ms, &CVCS_AT_ONCE]).await?);
    }
    Ok(count(erased))
}
