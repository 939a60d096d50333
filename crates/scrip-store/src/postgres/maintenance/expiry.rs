//! What leaves because its time is over. Each step is a transaction of one tenant, as every write is,
//! so any number of nodes can sweep: whoever comes second finds others, or another tenant's.

use scrip_core::{
    audit::{AuditRecord, LogKind},
    id::{TenantId, ThreeDsSessionId, TokenIntentId},
    store::{ExpiringEntity, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;

use crate::{
    postgres::{
        engine::{
            pool::ConnectionPool,
            scope::RowScope,
            statement::{AutocommitClient, PostgresClient, raw},
            tenant_lock::TenantLog,
            transaction::PostgresTransaction,
        },
        tokens::writes::{delete_token_row, select_tokens},
    },
    shared::tokens::{rows::decode_numbered_token, writes::TokenTransaction},
    sql::{Execute, delete_some, parameters, required},
};

/// Whoever else writes for the tenant waits for all of them.
const DELETE_BATCH: i64 = 32;
const ERASE_BATCH: i64 = 256;

/// The tenant of what ended first, without those that are in the way.
macro_rules! find_expired {
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

fn find_tenant_statement(kind: ExpiringEntity) -> &'static str {
    match kind {
        ExpiringEntity::Token => find_expired!("token", "tokens", "expires_at"),
        ExpiringEntity::TokenIntent => find_expired!("token_intent", "token_intents", "expires_at"),
        ExpiringEntity::ThreeDsSession => find_expired!("session", "sessions", "ends_at"),
    }
}

const LIST_EXPIRED_TOKENS: &str = concat!(
    "-- list_ended_tokens\n",
    select_tokens!(),
    " WHERE tokens.tenant = $1 AND tokens.expires_at <= $2
      ORDER BY tokens.expires_at, tokens.number LIMIT $3"
);

const LIST_EXPIRED_INTENTS: &str = "
-- list_ended_token_intents
SELECT id FROM token_intents WHERE tenant = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3";

const LIST_EXPIRED_SESSIONS: &str = "
-- list_ended_sessions
SELECT id FROM sessions WHERE tenant = $1 AND ends_at <= $2 ORDER BY ends_at LIMIT $3";

fn list_statement(kind: ExpiringEntity) -> &'static str {
    match kind {
        ExpiringEntity::Token => LIST_EXPIRED_TOKENS,
        ExpiringEntity::TokenIntent => LIST_EXPIRED_INTENTS,
        ExpiringEntity::ThreeDsSession => LIST_EXPIRED_SESSIONS,
    }
}

const DELETE_EXPIRED_INTENT: &str = "
-- delete_ended_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2";

const DELETE_EXPIRED_SESSION: &str = "
-- delete_ended_session
DELETE FROM sessions WHERE tenant = $1 AND id = $2";

/// Removes one, and leaves a record of it.
async fn delete_expired_row(
    transaction: &mut PostgresTransaction,
    kind: ExpiringEntity,
    row: &Row,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let entity = match kind {
        ExpiringEntity::Token => {
            let number = required(row, 0)?;
            match decode_numbered_token(row) {
                Ok(it) => transaction.remove_token(tenant, number, &it.token.record).await?,
                // Whoever altered a row must not keep it here, nor those behind it.
                Err(_) => delete_token_row(transaction, number).await?,
            }
            required(row, 1)?
        }
        ExpiringEntity::TokenIntent => {
            let id: TokenIntentId = required(row, 0)?;
            transaction.execute(DELETE_EXPIRED_INTENT, &parameters![tenant, id]).await?;
            id.to_string()
        }
        ExpiringEntity::ThreeDsSession => {
            let id: ThreeDsSessionId = required(row, 0)?;
            transaction.execute(DELETE_EXPIRED_SESSION, &parameters![tenant, id]).await?;
            id.to_string()
        }
    };
    transaction.append_record(audit, &entity, "expired");
    Ok(())
}

/// Some of one tenant's. What of a tenant cannot be ended stays, and the others' goes.
pub(crate) async fn delete_expired_rows(
    pool: &ConnectionPool,
    kind: ExpiringEntity,
    expired_by: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut left_out = Vec::new();
    let mut failed = None;
    loop {
        let every = AutocommitClient::new(pool, RowScope::all_tenants());
        let found =
            every.rows(find_tenant_statement(kind), &[&expired_by.unix_ms, &left_out]).await?;
        let Some(row) = found.first() else { return failed.map_or(Ok(0), Err) };
        let tenant: TenantId = required(row, 0)?;
        match delete_expired_of_tenant(pool, kind, tenant, expired_by, audit).await {
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

async fn delete_expired_of_tenant(
    pool: &ConnectionPool,
    kind: ExpiringEntity,
    tenant: TenantId,
    expired_by: Timestamp,
    audit: &AuditRecord,
) -> Result<usize, StoreError> {
    let mut transaction =
        PostgresTransaction::begin(pool, TenantLog { log: LogKind::Audit, tenant }, 0).await?;
    let some = parameters![tenant, expired_by, DELETE_BATCH];
    let rows = transaction.rows(list_statement(kind), &raw(&some)).await?;
    for row in &rows {
        delete_expired_row(&mut transaction, kind, row, audit).await?;
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

const ERASE_EXPIRED_CVCS: [&str; 2] =
    [sweep_cvcs!("cvcs", "tenant, token"), sweep_cvcs!("intent_cvcs", "tenant, intent")];

pub(crate) async fn erase_expired_cvcs(
    client: &AutocommitClient<'_>,
    expired_by: Timestamp,
) -> Result<usize, StoreError> {
    let mut erased = 0_usize;
    for sql in ERASE_EXPIRED_CVCS {
        let some = client.execute(sql, &parameters![expired_by, ERASE_BATCH]).await?;
        erased = erased.saturating_add(some);
    }
    Ok(erased)
}
