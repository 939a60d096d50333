//! 3-D Secure sessions, and the events that tell of them.

use std::sync::Arc;

use scrip_core::{
    audit::LogKind,
    id::{TenantId, ThreeDsSessionId, TokenId},
    policy::LookupPermit,
    store::{ChangeOutcome, StoreError, StoreFuture, ThreeDsEventStore, ThreeDsSessionStore},
    threeds::{
        CardReference, ThreeDsEventRecord, ThreeDsSessionCard, ThreeDsSessionCardColumns,
        ThreeDsSessionRecord, ThreeDsSessionWrite,
    },
    time::Timestamp,
};

use crate::{
    shared::{idempotency::insert_idempotency_record, session_cards::is_used_by_threeds_session},
    sql::{
        ColumnReader, DeleteSome, Statements, WriteTransaction, delete_some, for_both_engines,
        optional, parameters, required,
    },
};

/// Not where any tenant has the id, whether or not its row is ours to see.
const INSERT_THREEDS_SESSION: &str = "
-- insert_session
INSERT INTO sessions (tenant, id, created_by, created_at, ends_at, revision, token, intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

async fn insert_threeds_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    write: &ThreeDsSessionWrite,
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
        session.deletes_at,
        session.revision,
        session.card.token(),
        session.card.intent(),
        &session.body,
    ];
    if transaction.execute(INSERT_THREEDS_SESSION, &row).await? == 0 {
        return Err(StoreError::Unavailable("the id of a session is taken".into()));
    }
    insert_session_extras(transaction, write).await
}

/// What commits with the session's row.
async fn insert_session_extras<T: WriteTransaction>(
    transaction: &mut T,
    write: &ThreeDsSessionWrite,
) -> Result<(), StoreError> {
    let ThreeDsSessionWrite {
        session,
        events,
        audit,
        outcome,
        used_card: used,
        idempotency: answer,
    } = write;
    let tenant = session.tenant;
    transaction.append_audit_record(tenant, audit, &session.id.to_string(), outcome).await?;
    if let Some((operation, entity)) = used.as_ref().map(CardReference::audit_subject) {
        transaction
            .append_audit_record(tenant, &audit.with_operation(operation), &entity, "used")
            .await?;
    }
    if let Some(answer) = answer {
        insert_idempotency_record(transaction, tenant, answer, &[]).await?;
    }
    // The last, for whoever writes an event waits for it.
    insert_threeds_events(transaction, events).await
}

/// Columns in the order that [`session`] reads them, of a session that has not ended.
macro_rules! find_threeds_session {
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

const FIND_THREEDS_SESSION: &str = find_threeds_session!("find_session", " AND tenant = $3");

const FIND_NOTIFIED_THREEDS_SESSION: &str = find_threeds_session!("find_notified_session", "");

fn decode_threeds_session(row: &dyn ColumnReader) -> Result<ThreeDsSessionRecord, StoreError> {
    let unknown = || StoreError::Corrupt("the row of a session is not one of ours");
    decode_columns(row).ok().flatten().ok_or_else(unknown)
}

fn decode_columns(row: &dyn ColumnReader) -> Result<Option<ThreeDsSessionRecord>, StoreError> {
    let tenant = required(row, 0)?;
    let card = ThreeDsSessionCardColumns {
        token: optional(row, 6)?,
        intent: optional(row, 7)?,
        containers: optional(row, 8)?,
        number_version: optional(row, 9)?,
        mac: optional(row, 10)?,
    };
    let Some(card) = ThreeDsSessionCard::from_row(tenant, card) else { return Ok(None) };
    Ok(Some(ThreeDsSessionRecord {
        tenant,
        id: required(row, 1)?,
        created_by: required(row, 2)?,
        created_at: required(row, 3)?,
        deletes_at: optional(row, 4)?,
        revision: required(row, 5)?,
        card,
        body: required(row, 11)?,
    }))
}

const UPDATE_THREEDS_SESSION: &str = "
-- update_session
UPDATE sessions SET ends_at = $1, revision = $2, body = $3
WHERE tenant = $4 AND id = $5 AND revision = $6";

/// Stale where another request has written the session since it was read.
async fn update_threeds_session<T: WriteTransaction>(
    transaction: &mut T,
    write: &ThreeDsSessionWrite,
) -> Result<ChangeOutcome, StoreError> {
    let session = &write.session;
    transaction.check_tenant(session.tenant).await?;
    let row = parameters![
        session.deletes_at,
        session.revision,
        &session.body,
        session.tenant,
        session.id,
        session.revision.checked_sub(1),
    ];
    if transaction.execute(UPDATE_THREEDS_SESSION, &row).await? == 0 {
        return Ok(ChangeOutcome::Stale);
    }
    insert_session_extras(transaction, write).await?;
    Ok(ChangeOutcome::Done)
}

const INSERT_THREEDS_EVENT: &str = "
-- insert_event
INSERT INTO session_events (tenant, seq, id, at, body) VALUES ($1, $2, $3, $4, $5)";

async fn insert_threeds_events<T: WriteTransaction>(
    transaction: &T,
    events: &[ThreeDsEventRecord],
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let last = transaction.reserve_event_numbers(events.len()).await?;
    let many = i64::try_from(events.len()).unwrap_or(i64::MAX);
    for (seq, event) in (last.saturating_sub(many).saturating_add(1)..).zip(events) {
        let row = parameters![event.tenant, seq, event.id, event.at, &event.body];
        transaction.execute(INSERT_THREEDS_EVENT, &row).await?;
    }
    Ok(())
}

const LIST_THREEDS_EVENTS: &str = "
-- list_events
SELECT seq, tenant, id, at, body FROM session_events WHERE seq > $1 ORDER BY seq LIMIT $2";

fn decode_event(row: &dyn ColumnReader) -> Result<(i64, ThreeDsEventRecord), StoreError> {
    let record = ThreeDsEventRecord {
        tenant: required(row, 1)?,
        id: required(row, 2)?,
        at: required(row, 3)?,
        body: required(row, 4)?,
    };
    Ok((required(row, 0)?, record))
}

const DELETE_OLD_EVENTS: DeleteSome = delete_some!(
    "forget_events",
    "session_events",
    "at <= $1 ORDER BY at",
    sqlite: "seq" up to 256,
    postgres: "tenant, seq" up to 256,
);

for_both_engines! {
impl ThreeDsSessionStore {
    fn insert_threeds_session(&self, inquiry: LookupPermit, write: ThreeDsSessionWrite) -> StoreFuture<'_, ()> {
        let tenant = inquiry.tenant().id;
        Box::pin(self.write(tenant, async move |it| insert_threeds_session(it, tenant, &write).await))
    }

    fn find_threeds_session(
        &self,
        inquiry: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move {
            self.for_tenant(tenant).find(FIND_THREEDS_SESSION, &parameters![id, now, tenant], decode_threeds_session).await
        })
    }

    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        Box::pin(async move {
            let of = parameters![id, now];
            self.for_all_tenants().find(FIND_NOTIFIED_THREEDS_SESSION, &of, decode_threeds_session).await
        })
    }

    /// It may be the answer to a message that cannot be sent again: so it waits where others are
    /// told that there is too much to do.
    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome> {
        let (tenant, write) = (write.session.tenant, Arc::new(write));
        Box::pin(self.write_waiting(tenant, async move |it| update_threeds_session(it, &write).await))
    }

    fn is_used_by_threeds_session<'a>(
        &'a self,
        inquiry: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { is_used_by_threeds_session(&self.for_tenant(tenant), tenant, token, now).await })
    }
}
}

for_both_engines! {
impl ThreeDsEventStore {
    fn list_threeds_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, ThreeDsEventRecord)>> {
        Box::pin(async move {
            self.for_all_tenants().query(LIST_THREEDS_EVENTS, &parameters![after, events_max], decode_event).await
        })
    }

    fn delete_expired_threeds_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_some(LogKind::Audit, &DELETE_OLD_EVENTS, before))
    }
}
}

pub(crate) const STATEMENTS: &[&str] = &[
    INSERT_THREEDS_SESSION,
    FIND_THREEDS_SESSION,
    FIND_NOTIFIED_THREEDS_SESSION,
    UPDATE_THREEDS_SESSION,
    INSERT_THREEDS_EVENT,
    LIST_THREEDS_EVENTS,
    DELETE_OLD_EVENTS.sqlite,
];
