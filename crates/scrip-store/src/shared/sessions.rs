//! 3-D Secure sessions, and the events that tell of them.

use scrip_core::{
    id::{SessionId, TenantId, TokenId},
    policy::Signed,
    store::{Changed, StoreError},
    threeds::{
        CardReference, ConvertedIntent, EventRecord, SessionCard, SessionCardColumns,
        SessionRecord, SessionWrite,
    },
    time::Timestamp,
};

use crate::{
    shared::answers::insert_answer,
    sql::{ColumnReader, Execute, Statements, WriteTransaction, optional, parameters, required},
};

pub(crate) const NO_LAST_EVENT: StoreError = StoreError::Corrupt("the number of events is gone");

/// Not where any tenant has the id, whether or not its row is ours to see.
const INSERT_SESSION: &str = "
-- insert_session
INSERT INTO sessions (tenant, id, created_by, created_at, ends_at, revision, token, intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

pub(crate) async fn insert_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    write: &SessionWrite,
) -> Result<(), StoreError> {
    let session = &write.session;
    if session.tenant != tenant {
        return Err(StoreError::Corrupt("a session of another tenant"));
    }
    transaction.check_tenant(tenant).await?;
    let row = parameters![
        tenant,
        session.id,
        session.created_by,
        session.created_at,
        session.ends_at,
        session.revision,
        session.card.token(),
        session.card.intent(),
        &session.body,
    ];
    if transaction.execute(INSERT_SESSION, &row).await? == 0 {
        return Err(StoreError::Unavailable("the id of a session is taken".into()));
    }
    insert_with(transaction, write).await
}

/// What commits with the session's row.
async fn insert_with<T: WriteTransaction>(
    transaction: &mut T,
    write: &SessionWrite,
) -> Result<(), StoreError> {
    let SessionWrite { session, events, audit, outcome, used, answer } = write;
    let tenant = session.tenant;
    transaction.append(tenant, audit, &session.id.to_string(), outcome).await?;
    if let Some((operation, entity)) = used.as_ref().map(CardReference::recorded) {
        transaction.append(tenant, &audit.also(operation), &entity, "used").await?;
    }
    if let Some(answer) = answer {
        insert_answer(transaction, tenant, answer, &[]).await?;
    }
    // The last, for whoever writes an event waits for it.
    insert_events(transaction, events).await
}

/// Columns in the order that [`session`] reads them, of a session that has not ended.
macro_rules! find_session {
    ($name:literal, $of:literal) => {
        concat!(
            "-- ",
            $name,
            "\nSELECT tenant, id, created_by, created_at, ends_at, revision, token, intent,
                converted_containers, converted_number_version, converted_mac, body FROM sessions
             WHERE id = $1 AND (ends_at IS NULL OR ends_at > $2)",
            $of
        )
    };
}

const FIND_SESSION: &str = find_session!("find_session", " AND tenant = $3");

pub(crate) async fn find_session(
    client: &impl Statements,
    tenant: TenantId,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    client.find(FIND_SESSION, &parameters![id, now, tenant], session).await
}

const FIND_NOTIFIED_SESSION: &str = find_session!("find_notified_session", "");

pub(crate) async fn find_notified_session(
    client: &impl Statements,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    client.find(FIND_NOTIFIED_SESSION, &parameters![id, now], session).await
}

fn session(row: &dyn ColumnReader) -> Result<SessionRecord, StoreError> {
    let unknown = || StoreError::Corrupt("the row of a session is not one of ours");
    decode_session(row).ok().flatten().ok_or_else(unknown)
}

fn decode_session(row: &dyn ColumnReader) -> Result<Option<SessionRecord>, StoreError> {
    let tenant = required(row, 0)?;
    let card = SessionCardColumns {
        token: optional(row, 6)?,
        intent: optional(row, 7)?,
        containers: optional(row, 8)?,
        number_version: optional(row, 9)?,
        mac: optional(row, 10)?,
    };
    let Some(card) = SessionCard::from_row(tenant, card) else { return Ok(None) };
    Ok(Some(SessionRecord {
        tenant,
        id: required(row, 1)?,
        created_by: required(row, 2)?,
        created_at: required(row, 3)?,
        ends_at: optional(row, 4)?,
        revision: required(row, 5)?,
        card,
        body: required(row, 11)?,
    }))
}

const UPDATE_SESSION: &str = "
-- update_session
UPDATE sessions SET ends_at = $1, revision = $2, body = $3
WHERE tenant = $4 AND id = $5 AND revision = $6";

/// Stale where another request has written the session since it was read.
pub(crate) async fn update_session<T: WriteTransaction>(
    transaction: &mut T,
    write: &SessionWrite,
) -> Result<Changed, StoreError> {
    let session = &write.session;
    transaction.check_tenant(session.tenant).await?;
    let row = parameters![
        session.ends_at,
        session.revision,
        &session.body,
        session.tenant,
        session.id,
        session.revision.checked_sub(1),
    ];
    if transaction.execute(UPDATE_SESSION, &row).await? == 0 {
        return Ok(Changed::Stale);
    }
    insert_with(transaction, write).await?;
    Ok(Changed::Done)
}

const INSERT_EVENT: &str = "
-- insert_event
INSERT INTO session_events (tenant, seq, id, at, body) VALUES ($1, $2, $3, $4, $5)";

async fn insert_events<T: WriteTransaction>(
    transaction: &T,
    events: &[EventRecord],
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let last = transaction.next_events(events.len()).await?;
    let many = i64::try_from(events.len()).unwrap_or(i64::MAX);
    for (seq, event) in (last.saturating_sub(many).saturating_add(1)..).zip(events) {
        let row = parameters![event.tenant, seq, event.id, event.at, &event.body];
        transaction.execute(INSERT_EVENT, &row).await?;
    }
    Ok(())
}

const LIST_EVENTS: &str = "
-- list_events
SELECT seq, tenant, id, at, body FROM session_events WHERE seq > $1 ORDER BY seq LIMIT $2";

pub(crate) async fn list_events(
    client: &impl Statements,
    after: i64,
    events_max: usize,
) -> Result<Vec<(i64, EventRecord)>, StoreError> {
    client.query(LIST_EVENTS, &parameters![after, events_max], event).await
}

fn event(row: &dyn ColumnReader) -> Result<(i64, EventRecord), StoreError> {
    let record = EventRecord {
        tenant: required(row, 1)?,
        id: required(row, 2)?,
        at: required(row, 3)?,
        body: required(row, 4)?,
    };
    Ok((required(row, 0)?, record))
}

const CONVERT_CARD: &str = "
-- convert_session_card
UPDATE sessions SET token = $1, converted_containers = $2, converted_mac = $3,
    converted_number_version = $4
WHERE tenant = $5 AND intent = $6";

/// Names the token that the intent of these sessions became.
pub(crate) async fn convert_card(
    transaction: &impl Execute,
    converted: &Signed<ConvertedIntent>,
) -> Result<(), StoreError> {
    let record = &converted.record;
    let row = parameters![
        &record.token,
        record.containers.text(),
        &converted.mac,
        record.number_version,
        record.tenant,
        record.intent,
    ];
    transaction.execute(CONVERT_CARD, &row).await.map(drop)
}

const NAMES_TOKEN: &str = "
-- is_named_by_session
SELECT 1 FROM sessions
WHERE tenant = $1 AND token = $2 AND (ends_at IS NULL OR ends_at > $3) LIMIT 1";

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT_SESSION,
    FIND_SESSION,
    FIND_NOTIFIED_SESSION,
    UPDATE_SESSION,
    INSERT_EVENT,
    LIST_EVENTS,
    CONVERT_CARD,
    NAMES_TOKEN,
];

/// Whether a session that lives names a token. Also asked inside the transaction of a write.
pub(crate) async fn is_named_by_session(
    client: &impl Statements,
    tenant: TenantId,
    token: &TokenId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let found = client.find(NAMES_TOKEN, &parameters![tenant, token, now], |_| Ok(())).await?;
    Ok(found.is_some())
}
