//! 3-D Secure sessions, and what is to be told of them.

use crate::postgres::{
    PostgresStore,
    answers::insert_answer,
    changed,
    row::{column, optional_time, sealed, time},
    statement::{Parameters, Single, Statements, count, execute, query, unavailable},
    transaction::Transaction,
};
use scrip_core::{
    caller::Inquiry,
    id::{ApplicationId, NumberVersion, SessionId, TenantId, TokenId, TokenIntentId},
    policy::Signed,
    store::{Changed, SessionStore, StoreError, StoreFuture},
    threeds::{
        CardReference, ConvertedIntent, EventRecord, SessionCard, SessionCardColumns,
        SessionRecord, SessionWrite,
    },
    time::Timestamp,
};
use scrip_seal::Mac;
use tokio_postgres::Row;
use uuid::Uuid;

/// Not where any tenant has the id, whether or not its row is ours to see.
const INSERT_SESSION: &str = "
-- insert_session
INSERT INTO sessions (tenant, id, created_by, created_at, ends_at, revision, token, intent, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";

pub(super) async fn insert_session(
    transaction: &mut Transaction,
    write: &SessionWrite,
) -> Result<(), StoreError> {
    let session = &write.session;
    if session.tenant != transaction.tenant {
        return Err(StoreError::Corrupt("a session of another tenant"));
    }
    transaction.check_tenant()?;
    let inserted = transaction
        .execute(
            INSERT_SESSION,
            &[
                &session.tenant.0,
                &session.id.0,
                &session.created_by.0,
                &session.created_at.unix_ms,
                &session.ends_at.map(|it| it.unix_ms),
                &session.revision,
                &session.card.token().map(TokenId::as_str),
                &session.card.intent().map(|it| it.0),
                &session.body.as_bytes(),
            ],
        )
        .await?;
    if inserted == 0 {
        return Err(unavailable("the id of a session is taken"));
    }
    insert_with(transaction, write).await
}

/// What commits with the session's row.
async fn insert_with(
    transaction: &mut Transaction,
    write: &SessionWrite,
) -> Result<(), StoreError> {
    let SessionWrite { session, events, audit, outcome, used, answer } = write;
    transaction.append(audit, &session.id.to_string(), outcome);
    if let Some((operation, entity)) = used.as_ref().map(CardReference::recorded) {
        transaction.append(&audit.also(operation), &entity, "used");
    }
    if let Some(answer) = answer {
        insert_answer(transaction, answer, &[]).await?;
    }
    // The last, for whoever writes an event waits for it.
    insert_events(transaction, events).await
}

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

pub(super) async fn find_session(
    client: &impl Statements,
    tenant: TenantId,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    let rows = query(client, FIND_SESSION, &[&id.0, &now.unix_ms, &tenant.0]).await?;
    rows.first().map(session).transpose()
}

const FIND_NOTIFIED_SESSION: &str = find_session!("find_notified_session", "");

pub(super) async fn find_notified_session(
    client: &impl Statements,
    id: SessionId,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    let rows = query(client, FIND_NOTIFIED_SESSION, &[&id.0, &now.unix_ms]).await?;
    rows.first().map(session).transpose()
}

fn session(row: &Row) -> Result<SessionRecord, StoreError> {
    let unknown = || StoreError::Corrupt("the row of a session is not one of ours");
    let tenant = TenantId(column(row, 0)?);
    let mac: Option<&[u8]> = column(row, 10)?;
    let card = SessionCardColumns {
        token: column(row, 6)?,
        intent: column::<Option<Uuid>>(row, 7)?.map(TokenIntentId),
        containers: column(row, 8)?,
        number_version: column::<Option<Uuid>>(row, 9)?.map(NumberVersion),
        mac: mac.map(|it| it.try_into().map(Mac)).transpose().map_err(|_| unknown())?,
    };
    Ok(SessionRecord {
        tenant,
        id: SessionId(column(row, 1)?),
        created_by: ApplicationId(column(row, 2)?),
        created_at: time(row, 3)?,
        ends_at: optional_time(row, 4)?,
        revision: column(row, 5)?,
        card: SessionCard::from_row(tenant, card).ok_or_else(unknown)?,
        body: sealed(row, 11)?,
    })
}

const UPDATE_SESSION: &str = "
-- update_session
UPDATE sessions SET ends_at = $3, revision = $4, body = $5
WHERE tenant = $1 AND id = $2 AND revision = $6";

pub(super) async fn update_session(
    transaction: &mut Transaction,
    write: &SessionWrite,
) -> Result<Changed, StoreError> {
    let session = &write.session;
    transaction.check_tenant()?;
    let before = session.revision.checked_sub(1);
    let changed = transaction
        .execute(
            UPDATE_SESSION,
            &[
                &session.tenant.0,
                &session.id.0,
                &session.ends_at.map(|it| it.unix_ms),
                &session.revision,
                &session.body.as_bytes(),
                &before,
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Changed::Stale);
    }
    insert_with(transaction, write).await?;
    Ok(Changed::Done)
}

/// The row is locked until the commit, so numbers are seen in their order. Behind all that there
/// are, also where somebody set the number back.
const NEXT_EVENTS: &str = "
-- next_events
UPDATE event_state
SET last = greatest(last, coalesce((SELECT max(seq) FROM session_events), 0)) + $1
WHERE one = 1 RETURNING last";

const INSERT_EVENT: &str = "
-- insert_event
INSERT INTO session_events (tenant, seq, id, at, body) VALUES ($1, $2, $3, $4, $5)";

async fn insert_events(
    transaction: &Transaction,
    events: &[EventRecord],
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let many = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let rows = transaction.query_every_tenant(NEXT_EVENTS, &[&many]).await?;
    let row = rows.first().ok_or(StoreError::Corrupt("the number of events is gone"))?;
    let last: i64 = column(row, 0)?;
    for (seq, event) in (last.saturating_sub(many).saturating_add(1)..).zip(events) {
        let EventRecord { tenant, id, at, body } = event;
        let body = body.as_bytes();
        let parameters: Parameters<'_, 5> = [&tenant.0, &seq, id, &at.unix_ms, &body];
        transaction.execute(INSERT_EVENT, &parameters).await?;
    }
    Ok(())
}

const LIST_EVENTS: &str = "
-- list_events
SELECT seq, tenant, id, at, body FROM session_events WHERE seq > $1 ORDER BY seq LIMIT $2";

pub(super) async fn list_events(
    client: &impl Statements,
    after: i64,
    events_max: usize,
) -> Result<Vec<(i64, EventRecord)>, StoreError> {
    let limit = i64::try_from(events_max).unwrap_or(i64::MAX);
    let rows = query(client, LIST_EVENTS, &[&after, &limit]).await?;
    rows.iter().map(event).collect()
}

fn event(row: &Row) -> Result<(i64, EventRecord), StoreError> {
    let record = EventRecord {
        tenant: TenantId(column(row, 1)?),
        id: column(row, 2)?,
        at: time(row, 3)?,
        body: sealed(row, 4)?,
    };
    Ok((column(row, 0)?, record))
}

const FORGOTTEN_AT_ONCE: i64 = 256;

const FORGET_EVENTS: &str = "
-- forget_events
DELETE FROM session_events WHERE (tenant, seq) IN (
    SELECT tenant, seq FROM session_events WHERE at <= $1 ORDER BY at LIMIT $2
    FOR UPDATE SKIP LOCKED
)";

pub(super) async fn forget_events(
    client: &Single<'_>,
    before: Timestamp,
) -> Result<usize, StoreError> {
    execute(client, FORGET_EVENTS, &[&before.unix_ms, &FORGOTTEN_AT_ONCE]).await.map(count)
}

const CONVERT_CARD: &str = "
-- convert_session_card
UPDATE sessions SET token = $3, converted_containers = $4, converted_mac = $5,
    converted_number_version = $6
WHERE tenant = $1 AND intent = $2";

/// Names the token that the intent of these sessions became.
pub(super) async fn convert_card(
    transaction: &Transaction,
    converted: &Signed<ConvertedIntent>,
) -> Result<(), StoreError> {
    let record = &converted.record;
    let (containers, mac) = (record.containers.text(), converted.mac.0.as_slice());
    let (token, version) = (record.token.as_str(), record.number_version.map(|it| it.0));
    let parameters: Parameters<'_, 6> =
        [&record.tenant.0, &record.intent.0, &token, &containers, &mac, &version];
    transaction.execute(CONVERT_CARD, &parameters).await.map(drop)
}

const NAMES_TOKEN: &str = "
-- is_named_by_session
SELECT EXISTS (SELECT 1 FROM sessions
    WHERE tenant = $1 AND token = $2 AND (ends_at IS NULL OR ends_at > $3))";

impl SessionStore for PostgresStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(inquiry.tenant().id).await?;
            insert_session(&mut it, &write).await?;
            it.commit().await
        })
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        let tenant = inquiry.tenant().id;
        Box::pin(async move { find_session(&self.of(tenant), tenant, id, now).await })
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        Box::pin(async move { find_notified_session(&self.of_every_tenant(), id, now).await })
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(write.session.tenant).await?;
            let updated = update_session(&mut it, &write).await?;
            changed(it, updated).await
        })
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            names_token(&self.of(tenant), tenant, token, now).await
        })
    }
}

/// Also asked inside the transaction of a write.
pub(super) async fn names_token(
    client: &impl Statements,
    tenant: TenantId,
    token: &TokenId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let parameters: Parameters<'_, 3> = [&tenant.0, &token.as_str(), &now.unix_ms];
    let rows = query(client, NAMES_TOKEN, &parameters).await?;
    rows.first().map_or(Ok(false), |row| column(row, 0))
}
