//! What leaves because its time is over. Each step is a transaction of one tenant, as every write is,
//! so any number of nodes can sweep: whoever comes second finds others, or another tenant's.

use scrip_core::{
    audit::{AuditRecord, Log},
    id::{SessionId, TenantId, TokenIntentId},
    store::{Ending, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use crate::{
    postgres::{
        engine::{
            lane::Lane,
            pool::Pool,
            scope::Scope,
            statement::{PostgresClient, Single, raw},
            transaction::Transaction,
        },
        tokens::writes::{remove_row, select_tokens},
    },
    rules::tokens::{rows::numbered_token, writes::TokenTransaction},
    sql::{Execute, delete_some, parameters, required},
};

/// Whoever else writes for the tenant waits for all of them.
const AT_ONCE: i64 = 32;
const CVCS_AT_ONCE: i64 = 256;

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

fn find_statement(ending: Ending) -> &'static str {
    match ending {
        Ending::Token => find_ended!("token", "tokens", "expires_at"),
        Ending::TokenIntent => find_ended!("token_intent", "token_intents", "expires_at"),
        Ending::Session => find_ended!("session", "sessions", "ends_at"),
    }
}

const LIST_TOKENS: &str = concat!(
    "-- list_ended_tokens\n",
    select_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.expires_at <= $2
      ORDER BY tokens.expires_at, tokens.number LIMIT $3"
);

const LIST_INTENTS: &str = "
-- list_ended_token_intents
SELECT id FROM token_intents WHERE tenant = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3";

const LIST_SESSIONS: &str = "
-- list_ended_sessions
SELECT id FROM sessions WHERE tenant = $1 AND ends_at <= $2 ORDER BY ends_at LIMIT $3";

fn list_statement(ending: Ending) -> &'static str {
    match ending {
        Ending::Token => LIST_TOKENS,
        Ending::TokenIntent => LIST_INTENTS,
        Ending::Session => LIST_SESSIONS,
    }
}

const DELETE_INTENT: &str = "
-- delete_ended_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2";

const DELETE_SESSION: &str = "
-- delete_ended_session
DELETE FROM sessions WHERE tenant = $1 AND id = $2";

/// Removes one, and leaves a record of it.
async fn end(
    transaction: &mut Transaction,
    ending: Ending,
    row: &Row,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let entity = match ending {
        Ending::Token => {
            let number = required(row, 0)?;
            match numbered_token(row) {
                Ok(it) => transaction.remove_token(tenant, number, &it.token.record).await?,
                // Whoever altered a row must not keep it here, nor those behind it.
                Err(_) => remove_row(transaction, number).await?,
            }
            required(row, 1)?
        }
        Ending::TokenIntent => {
            let id: TokenIntentId = required(row, 0)?;
            transaction.execute(DELETE_INTENT, &parameters![tenant, id]).await?;
            id.to_string()
        }
        Ending::Session => {
            let id: SessionId = required(row, 0)?;
            transaction.execute(DELETE_SESSION, &parameters![tenant, id]).await?;
            id.to_string()
        }
    };
    transaction.append_record(audit, &entity, "expired");
    Ok(())
}

/// Some of one tenant's. What of a tenant cannot be ended stays, and the others' goes.
pub(crate) async fn sweep(
    pool: &Pool,
    ending: Ending,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut left_out = Vec::new();
    let mut failed = None;
    loop {
        let every = Single::new(pool, Scope::every_tenant());
        let found = every.rows(find_statement(ending), &[&ended.unix_ms, &left_out]).await?;
        let Some(row) = found.first() else { return failed.map_or(Ok(0), Err) };
        let tenant: TenantId = required(row, 0)?;
        match sweep_tenant(pool, ending, tenant, ended, audit).await {
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
    ending: Ending,
    tenant: TenantId,
    ended: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut transaction = Transaction::begin(pool, Lane { log: Log::Audit, tenant }, 0).await?;
    let some = parameters![tenant, ended, AT_ONCE];
    let rows = transaction.rows(list_statement(ending), &raw(&some)).await?;
    for row in &rows {
        end(&mut transaction, ending, row, audit).await?;
    }
    transaction.commit().await?;
    Ok(rows.len())
}

macro_rules! sweep_cvcs {
    ($table:literal, $key:literal) => {
        delete_some!(
            postgres,
            concat!("sweep_", $table),
            $table,
            "expires_at <= $1 ORDER BY expires_at",
            $key
        )
    };
}

const SWEEP_CVCS: [&str; 2] =
    [sweep_cvcs!("cvcs", "tenant, token"), sweep_cvcs!("intent_cvcs", "tenant, intent")];

pub(crate) async fn sweep_cvcs(client: &Single<'_>, ended: Timestamp) -> Result<usize, StoreError> {
    let mut erased = 0_usize;
    for sql in SWEEP_CVCS {
        let some = client.execute(sql, &parameters![ended, CVCS_AT_ONCE]).await?;
        erased = erased.saturating_add(some);
    }
    Ok(erased)
}
