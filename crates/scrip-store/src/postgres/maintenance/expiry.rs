//! Deletes expired rows. Each transaction is for one tenant, like every write, so any number of
//! nodes can delete at the same time: a later node finds other rows or another tenant.

use scrip_core::{
    Timestamp,
    audit::{AuditRecord, LogKind},
    events::ExpiryEvents,
    store::ExpiringEntity,
    types::{
        EventType, StoreError,
        id::{TenantId, ThreeDsSessionId, TokenIntentId},
    },
};
use tokio_postgres::Row;

use crate::{
    postgres::{
        engine::{
            commit_rows::delivery_statement,
            pool::ConnectionPool,
            scope::RowScope,
            statement::{AutocommitClient, PostgresClient, SqlValue, driver_parameters},
            tenant_lock::TenantLog,
            transaction::PostgresTransaction,
        },
        tokens::writes::{delete_token_row, select_tokens},
    },
    shared::tokens::{rows::decode_numbered_token, writes::TokenTransaction},
    sql::{Execute, parameters, read_required},
};

/// Maximum number of rows per transaction. Other writes of the tenant wait for the whole batch.
const DELETE_BATCH_SIZE: i64 = 32;
/// Maximum number of CVCs per statement.
const ERASE_BATCH_SIZE: i64 = 256;

/// Finds the tenant of the row that expired first. The excluded tenants are skipped.
const FIND_EXPIRED_TOKEN: &str = "
-- find_expired_token
SELECT tenant FROM tokens WHERE expires_at <= $1 AND tenant <> ALL ($2) ORDER BY expires_at LIMIT 1";
const FIND_EXPIRED_INTENT: &str = "
-- find_expired_token_intent
SELECT tenant FROM token_intents WHERE expires_at <= $1 AND tenant <> ALL ($2) ORDER BY expires_at LIMIT 1";
const FIND_EXPIRED_SESSION: &str = "
-- find_expired_threeds_session
SELECT tenant FROM threeds_sessions WHERE deletes_at <= $1 AND tenant <> ALL ($2) ORDER BY deletes_at LIMIT 1";

fn find_tenant_statement(kind: ExpiringEntity) -> &'static str {
    match kind {
        ExpiringEntity::Token => FIND_EXPIRED_TOKEN,
        ExpiringEntity::TokenIntent => FIND_EXPIRED_INTENT,
        ExpiringEntity::ThreeDsSession => FIND_EXPIRED_SESSION,
    }
}

pub(crate) const LIST_EXPIRED_TOKENS: &str = concat!(
    "-- list_expired_tokens\n",
    select_tokens!(),
    "
WHERE tokens.tenant = $1 AND tokens.expires_at <= $2
ORDER BY tokens.expires_at, tokens.number LIMIT $3"
);

const LIST_EXPIRED_INTENTS: &str = "
-- list_expired_token_intents
SELECT id FROM token_intents WHERE tenant = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3";

const LIST_EXPIRED_SESSIONS: &str = "
-- list_expired_threeds_sessions
SELECT id FROM threeds_sessions WHERE tenant = $1 AND deletes_at <= $2 ORDER BY deletes_at LIMIT $3";

fn list_statement(kind: ExpiringEntity) -> &'static str {
    match kind {
        ExpiringEntity::Token => LIST_EXPIRED_TOKENS,
        ExpiringEntity::TokenIntent => LIST_EXPIRED_INTENTS,
        ExpiringEntity::ThreeDsSession => LIST_EXPIRED_SESSIONS,
    }
}

const DELETE_EXPIRED_INTENT: &str = "
-- delete_expired_token_intent
DELETE FROM token_intents WHERE tenant = $1 AND id = $2";

const DELETE_EXPIRED_SESSION: &str = "
-- delete_expired_threeds_session
DELETE FROM threeds_sessions WHERE tenant = $1 AND id = $2";

/// Deletes one row, and writes its audit record and its deliveries.
async fn delete_expired_row(
    transaction: &mut PostgresTransaction,
    kind: ExpiringEntity,
    row: &Row,
    audit: &AuditRecord,
    events: &ExpiryEvents,
) -> Result<(), StoreError> {
    let tenant = transaction.tenant;
    let entity_id = match kind {
        ExpiringEntity::Token => {
            let number = read_required(row, 0)?;
            match decode_numbered_token(row) {
                Ok(it) => transaction.remove_token(tenant, number, &it.token.record).await?,
                // An altered row must not prevent its own deletion or the deletion of later rows.
                Err(_) => delete_token_row(transaction, number).await?,
            }
            if let Ok(id) = read_required(row, 1) {
                transaction.append_deliveries(&events.raise_expired_token(tenant, &id))?;
            }
            read_required(row, 1)?
        }
        ExpiringEntity::TokenIntent => {
            let id: TokenIntentId = read_required(row, 0)?;
            transaction.execute(DELETE_EXPIRED_INTENT, &parameters![tenant, id]).await?;
            id.to_string()
        }
        ExpiringEntity::ThreeDsSession => {
            let id: ThreeDsSessionId = read_required(row, 0)?;
            transaction.execute(DELETE_EXPIRED_SESSION, &parameters![tenant, id]).await?;
            id.to_string()
        }
    };
    transaction.append_record(audit, &entity_id, "expired");
    Ok(())
}

/// Deletes a batch of one tenant. If a tenant's rows cannot be deleted, they stay and the next
/// tenant is tried.
pub(crate) async fn delete_expired_rows(
    pool: &ConnectionPool,
    kind: ExpiringEntity,
    cutoff: Timestamp,
    audit: &AuditRecord,
    events: &ExpiryEvents,
) -> Result<usize, StoreError> {
    let mut excluded_tenants = Vec::new();
    let mut last_error = None;
    loop {
        let client = AutocommitClient::new(pool, RowScope::all_tenants());
        let sql = find_tenant_statement(kind);
        let rows = client.rows(sql, &[&cutoff.unix_ms, &excluded_tenants]).await?;
        let Some(row) = rows.first() else { return last_error.map_or(Ok(0), Err) };
        let tenant: TenantId = read_required(row, 0)?;
        match delete_expired_rows_of_tenant(pool, kind, tenant, cutoff, audit, events).await {
            // Another node deleted the rows first.
            Ok(0) => (),
            Ok(deleted) => return Ok(deleted),
            Err(error) => {
                excluded_tenants.push(tenant.0);
                last_error = Some(error);
            }
        }
    }
}

async fn delete_expired_rows_of_tenant(
    pool: &ConnectionPool,
    kind: ExpiringEntity,
    tenant: TenantId,
    cutoff: Timestamp,
    audit: &AuditRecord,
    events: &ExpiryEvents,
) -> Result<usize, StoreError> {
    let mut transaction =
        PostgresTransaction::begin(pool, TenantLog { log: LogKind::Audit, tenant }, 0).await?;
    let parameters = parameters![tenant, cutoff, DELETE_BATCH_SIZE];
    let rows = transaction.rows(list_statement(kind), &driver_parameters(&parameters)).await?;
    for row in &rows {
        delete_expired_row(&mut transaction, kind, row, audit, events).await?;
    }
    transaction.commit().await?;
    Ok(rows.len())
}

const ERASE_EXPIRED_CVCS: &str = "
-- erase_expired_cvcs
DELETE FROM cvcs WHERE (tenant, token) IN (
    SELECT tenant, token FROM cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
    FOR UPDATE SKIP LOCKED)";

const ERASE_EXPIRED_INTENT_CVCS: &str = "
-- erase_expired_intent_cvcs
DELETE FROM intent_cvcs WHERE (tenant, intent) IN (
    SELECT tenant, intent FROM intent_cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
    FOR UPDATE SKIP LOCKED)";

/// As [`ERASE_EXPIRED_CVCS`]. Returns a row for each CVC, with the id of its token if the tenant is
/// one of the given ones.
const ERASE_AND_LIST_EXPIRED_CVCS: &str = "
-- erase_and_list_expired_cvcs
WITH erased AS (
    DELETE FROM cvcs WHERE (tenant, token) IN (
        SELECT tenant, token FROM cvcs WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
        FOR UPDATE SKIP LOCKED)
    RETURNING tenant, token
)
SELECT erased.tenant, (
    SELECT tokens.id FROM tokens
    WHERE erased.tenant = ANY ($3) AND tokens.tenant = erased.tenant
        AND tokens.number = erased.token)
FROM erased";

/// If no tenant wants the event of an expired CVC, the tokens are not looked up.
pub(crate) async fn erase_expired_cvcs(
    pool: &ConnectionPool,
    cutoff: Timestamp,
    events: &ExpiryEvents,
) -> Result<usize, StoreError> {
    let client = AutocommitClient::new(pool, RowScope::all_tenants());
    let limits = parameters![cutoff, ERASE_BATCH_SIZE];
    let tenants = events.subscribed_tenants(EventType::TokenPropertyExpired);
    let erased = match tenants.is_empty() {
        true => client.execute(ERASE_EXPIRED_CVCS, &limits).await?,
        false => erase_cvcs_with_events(pool, cutoff, events, &tenants).await?,
    };
    Ok(erased.saturating_add(client.execute(ERASE_EXPIRED_INTENT_CVCS, &limits).await?))
}

/// Erases CVCs of several tenants and writes their deliveries in one transaction. There is no lock
/// of a tenant, because no audit record is appended.
async fn erase_cvcs_with_events(
    pool: &ConnectionPool,
    cutoff: Timestamp,
    events: &ExpiryEvents,
    tenants: &[TenantId],
) -> Result<usize, StoreError> {
    let tenants: Vec<_> = tenants.iter().map(|it| it.0).collect();
    let mut connection = pool.acquire().await?;
    connection.batch(&RowScope::all_tenants().begin_write()).await?;
    let parameters: [SqlValue<'_>; 3] = [&cutoff.unix_ms, &ERASE_BATCH_SIZE, &tenants];
    let rows = connection.rows(ERASE_AND_LIST_EXPIRED_CVCS, &parameters).await?;
    let mut deliveries = Vec::new();
    for row in &rows {
        // An altered row must not prevent the deletion of the CVC.
        if let (Ok(tenant), Ok(token)) = (read_required(row, 0), read_required(row, 1)) {
            deliveries.extend(events.raise_expired_cvc(tenant, &token));
        }
    }
    if let Some(insert) = delivery_statement(&deliveries) {
        connection.execute_raw(insert.sql, &insert.driver_parameters()).await?;
    }
    connection.batch("COMMIT").await?;
    connection.release();
    Ok(rows.len())
}
