//! 3-D Secure sessions: each function is the work of one transaction.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension, Params, Row, named_params};
use scrip_core::{
    caller::Inquiry,
    id::{ApplicationId, NumberVersion, SessionId, TenantId, TokenId, TokenIntentId},
    policy::Signed,
    store::{Changed, SessionStore, StoreError, StoreFuture},
    threeds::{
        CardReference, ConvertedIntent, SessionCard, SessionCardColumns, SessionRecord,
        SessionWrite,
    },
    time::Timestamp,
};
use scrip_seal::{Mac, Sealed};

use crate::sqlite::{
    SqliteStore,
    answers::insert_answer,
    audit::insert_audit,
    events::insert_events,
    fault,
    row::uuid,
    tokens::{check_tenant, execute},
    transaction::Transaction,
    writer::Writer,
};

const INSERT_SESSION: &str = "
-- insert_session
INSERT INTO sessions (tenant, id, created_by, created_at, ends_at, revision, token, intent, body)
VALUES (:tenant, :id, :created_by, :created_at, :ends_at, :revision, :token, :intent, :body)";

pub(super) fn insert_session(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    write: &SessionWrite,
) -> Result<(), StoreError> {
    let session = &write.session;
    if session.tenant != tenant {
        return Err(StoreError::Corrupt("a session of another tenant"));
    }
    check_tenant(transaction, tenant)?;
    let parameters = named_params! {
        ":tenant": tenant.0.as_bytes(),
        ":id": session.id.0.as_bytes(),
        ":created_by": session.created_by.0.as_bytes(),
        ":created_at": session.created_at.unix_ms,
        ":ends_at": session.ends_at.map(|it| it.unix_ms),
        ":revision": session.revision,
        ":token": session.card.token().map(TokenId::as_str),
        ":intent": session.card.intent().map(|it| *it.0.as_bytes()),
        ":body": session.body.as_bytes(),
    };
    execute(transaction, INSERT_SESSION, parameters)?;
    insert_with(transaction, write)
}

/// What commits with the session's row.
fn insert_with(transaction: &mut Transaction<'_>, write: &SessionWrite) -> Result<(), StoreError> {
    let SessionWrite { session, events, audit, outcome, used, answer } = write;
    insert_events(transaction, events)?;
    insert_audit(transaction, session.tenant, audit, &session.id.to_string(), outcome)?;
    if let Some((operation, entity)) = used.as_ref().map(CardReference::recorded) {
        insert_audit(transaction, session.tenant, &audit.also(operation), &entity, "used")?;
    }
    match answer {
        None => Ok(()),
        Some(answer) => insert_answer(transaction, session.tenant, answer, &[]),
    }
}

const FIND_SESSION: &str = "
-- find_session
SELECT tenant, id, created_by, created_at, ends_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body FROM sessions
WHERE id = ?1 AND (ends_at IS NULL OR ends_at > ?2) AND tenant = ?3";

pub(super) fn find_session(
    connection: &Connection,
    tenant: TenantId,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    let parameters = (id.0.as_bytes(), now.unix_ms, tenant.0.as_bytes());
    find(connection, FIND_SESSION, parameters)
}

const FIND_NOTIFIED_SESSION: &str = "
-- find_notified_session
SELECT tenant, id, created_by, created_at, ends_at, revision, token, intent,
    converted_containers, converted_number_version, converted_mac, body FROM sessions
WHERE id = ?1 AND (ends_at IS NULL OR ends_at > ?2)";

pub(super) fn find_notified_session(
    connection: &Connection,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    find(connection, FIND_NOTIFIED_SESSION, (id.0.as_bytes(), now.unix_ms))
}

fn find(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Option<SessionRecord>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let found = statement.query_row(parameters, |row| Ok(session(row)));
    match found.optional().map_err(fault)? {
        Some(None) => Err(StoreError::Corrupt("the row of a session is not one of ours")),
        found => Ok(found.flatten()),
    }
}

fn session(row: &Row<'_>) -> Option<SessionRecord> {
    let tenant = TenantId(uuid(row.get(0).ok()?));
    let ends_at: Option<i64> = row.get(4).ok()?;
    let token: Option<String> = row.get(6).ok()?;
    let intent: Option<[u8; 16]> = row.get(7).ok()?;
    let containers: Option<String> = row.get(8).ok()?;
    let number_version: Option<[u8; 16]> = row.get(9).ok()?;
    let mac: Option<[u8; 32]> = row.get(10).ok()?;
    let card = SessionCardColumns {
        token: token.as_deref(),
        intent: intent.map(|it| TokenIntentId(uuid(it))),
        containers: containers.as_deref(),
        number_version: number_version.map(|it| NumberVersion(uuid(it))),
        mac: mac.map(Mac),
    };
    Some(SessionRecord {
        tenant,
        id: SessionId(uuid(row.get(1).ok()?)),
        created_by: ApplicationId(uuid(row.get(2).ok()?)),
        created_at: Timestamp { unix_ms: row.get(3).ok()? },
        ends_at: ends_at.map(|unix_ms| Timestamp { unix_ms }),
        revision: row.get(5).ok()?,
        card: SessionCard::from_row(tenant, card)?,
        body: Sealed::from_stored(row.get(11).ok()?),
    })
}

const UPDATE_SESSION: &str = "
-- update_session
UPDATE sessions SET ends_at = :ends_at, revision = :revision, body = :body
WHERE id = :id AND tenant = :tenant AND revision = :revision - 1";

pub(super) fn update_session(
    transaction: &mut Transaction<'_>,
    write: &SessionWrite,
) -> Result<Changed, StoreError> {
    let session = &write.session;
    check_tenant(transaction, session.tenant)?;
    let parameters = named_params! {
        ":id": session.id.0.as_bytes(),
        ":tenant": session.tenant.0.as_bytes(),
        ":ends_at": session.ends_at.map(|it| it.unix_ms),
        ":revision": session.revision,
        ":body": session.body.as_bytes(),
    };
    if execute(transaction, UPDATE_SESSION, parameters)? == 0 {
        return Ok(Changed::Stale);
    }
    insert_with(transaction, write)?;
    Ok(Changed::Done)
}

/// What a crowd of other writes may keep it waiting.
const TURNS_MAX: u32 = 200;
const TURN: Duration = Duration::from_millis(50);

/// It may be the answer to a message that cannot be sent again: where others are told that the writer
/// has too much to do, this waits.
pub(super) async fn in_turn(writer: &Writer, write: SessionWrite) -> Result<Changed, StoreError> {
    let write = Arc::new(write);
    for _ in 0..TURNS_MAX {
        let write = Arc::clone(&write);
        match writer.write(move |it| update_session(it, &write)).await {
            Err(StoreError::Busy) => tokio::time::sleep(TURN).await,
            done => return done,
        }
    }
    Err(StoreError::Busy)
}

const CONVERT_CARD: &str = "
-- convert_session_card
UPDATE sessions SET token = :token, converted_containers = :containers,
    converted_number_version = :number_version, converted_mac = :mac
WHERE tenant = :tenant AND intent = :intent";

/// Names the token that the intent of these sessions became.
pub(super) fn convert_card(
    transaction: &Transaction<'_>,
    converted: &Signed<ConvertedIntent>,
) -> Result<(), StoreError> {
    let record = &converted.record;
    let parameters = named_params! {
        ":tenant": record.tenant.0.as_bytes(),
        ":intent": record.intent.0.as_bytes(),
        ":token": record.token.as_str(),
        ":containers": record.containers.text(),
        ":number_version": record.number_version.map(|it| *it.0.as_bytes()),
        ":mac": converted.mac.0,
    };
    execute(transaction, CONVERT_CARD, parameters).map(drop)
}

const NAMES_TOKEN: &str = "
-- is_named_by_session
SELECT 1 FROM sessions
WHERE tenant = ?1 AND token = ?2 AND (ends_at IS NULL OR ends_at > ?3) LIMIT 1";

impl SessionStore for SqliteStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.writer.write(move |it| insert_session(it, tenant, &write)))
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { self.readers.read(|it| find_session(it, tenant, id, now)) })
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(async move { self.readers.read(|it| find_notified_session(it, id, now)) })
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        Box::pin(in_turn(&self.writer, write))
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { self.readers.read(|it| names_token(it, tenant, token, now)) })
    }
}

/// Also asked inside the transaction of a write.
pub(super) fn names_token(
    connection: &Connection,
    tenant: TenantId,
    token: &TokenId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(NAMES_TOKEN).map_err(fault)?;
    let parameters = (tenant.0.as_bytes(), token.as_str(), now.unix_ms);
    statement.exists(parameters).map_err(fault)
}
