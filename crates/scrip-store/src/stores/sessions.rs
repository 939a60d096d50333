//! 3-D Secure sessions, and the events that tell of them.

use std::sync::Arc;

use scrip_core::{
    audit::Log,
    id::{SessionId, TenantId, TokenId},
    policy::Inquiry,
    store::{Changed, EventStore, SessionStore, StoreError, StoreFuture},
    threeds::{
        CardReference, EventRecord, SessionCard, SessionCardColumns, SessionRecord, SessionWrite,
    },
    time::Timestamp,
};

use crate::{
    rules::{answers::insert_answer, session_cards::is_named_by_session},
    sql::{
        ColumnReader, DeleteSome, Statements, WriteTransaction, delete_some, for_both_engines,
        optional, parameters, required,
    },
};

/// Not where any tenant has the id, whether or not its row is ours to see.
const INSERT_SESSION: &str = "
-- insert_session
INSERT INTO sessions (tenant, id, created_by, created_at, ends_at, revision, token, intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

async fn insert_session<T: WriteTransaction>(
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

const FIND_NOTIFIED_SESSION: &str = find_session!("find_notified_session", "");

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
async fn update_session<T: WriteTransaction>(
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

fn event(row: &dyn ColumnReader) -> Result<(i64, EventRecord), StoreError> {
    let record = EventRecord {
        tenant: required(row, 1)?,
        id: required(row, 2)?,
        at: required(row, 3)?,
        body: required(row, 4)?,
    };
    Ok((required(row, 0)?, record))
}

const FORGET_EVENTS: DeleteSome = delete_some!(
    "forget_events",
    "session_events",
    "at <= $1 ORDER BY at",
    sqlite: "seq" up to 256,
    postgres: "tenant, seq" up to 256,
);

for_both_engines! {
impl SessionStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.write(tenant, async move |it| insert_session(it, tenant, &write).await))
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move {
            self.of(tenant).find(FIND_SESSION, &parameters![id, now, tenant], session).await
        })
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(async move {
            let of = parameters![id, now];
            self.of_every_tenant().find(FIND_NOTIFIED_SESSION, &of, session).await
        })
    }

    /// It may be the answer to a message that cannot be sent again: so it waits where others are
    /// told that there is too much to do.
    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        let (tenant, write) = (write.session.tenant, Arc::new(write));
        Box::pin(self.write_waiting(tenant, async move |it| update_session(it, &write).await))
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { is_named_by_session(&self.of(tenant), tenant, token, now).await })
    }
}
}

for_both_engines! {
impl EventStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        Box::pin(async move {
            self.of_every_tenant().query(LIST_EVENTS, &parameters![after, events_max], event).await
        })
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_some(Log::Audit, &FORGET_EVENTS, before))
    }
}
}

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT_SESSION,
    FIND_SESSION,
    FIND_NOTIFIED_SESSION,
    UPDATE_SESSION,
    INSERT_EVENT,
    LIST_EVENTS,
    FORGET_EVENTS.sqlite,
];
