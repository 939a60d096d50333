//! Access sessions.

use scrip_core::{
    access::AccessPolicy,
    access_session::{AccessSessionId, AccessSessionRecord, Authorized},
    caller::Mandate,
    id::{ApiKeyId, ApplicationId, TenantId},
    policy::Signed,
    store::{AccessSessionStore, Beside, Changed, StoreError, StoreFuture},
    time::Timestamp,
};
use scrip_seal::Mac;
use tokio_postgres::Row;

use crate::postgres::{
    PostgresStore,
    answers::insert_beside,
    changed,
    row::{array, column, optional_time, time},
    statement::{Single, Statements, count, execute, query},
    transaction::Transaction,
};

const FORGOTTEN_AT_ONCE: i64 = 256;

const INSERT_SESSION: &str = "
-- insert_access_session
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn insert_access_session(
    transaction: &mut Transaction,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<(), StoreError> {
    let record = &session.record;
    transaction
        .execute(
            INSERT_SESSION,
            &[
                &transaction.tenant.0,
                &record.id.0.as_slice(),
                &record.nonce.as_slice(),
                &record.application.0,
                &record.created_at.unix_ms,
                &record.expires_at.unix_ms,
                &session.mac.0.as_slice(),
            ],
        )
        .await?;
    insert_beside(transaction, written, "done").await
}

macro_rules! session_columns {
    () => {
        "digest, nonce, tenant, application, created_at, expires_at, authorized_by, \
         authorized_key, authorized_at, access, mac FROM access_sessions"
    };
}

const FIND_SESSION: &str =
    concat!("-- find_access_session\nSELECT ", session_columns!(), " WHERE digest = $1");

pub(super) async fn find_access_session(
    client: &impl Statements,
    id: AccessSessionId,
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    first(&query(client, FIND_SESSION, &[&id.0.as_slice()]).await?)
}

const FIND_BY_NONCE: &str = concat!(
    "-- find_access_session_by_nonce\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND nonce = $2"
);

pub(super) async fn find_access_session_by_nonce(
    client: &impl Statements,
    tenant: TenantId,
    nonce: [u8; 32],
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    first(&query(client, FIND_BY_NONCE, &[&tenant.0, &nonce.as_slice()]).await?)
}

fn first(rows: &[Row]) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    rows.first().map(session).transpose()
}

fn session(row: &Row) -> Result<Signed<AccessSessionRecord>, StoreError> {
    let unknown = || StoreError::Corrupt("the row of an access session is not one of ours");
    let authorized = match (column(row, 6)?, column(row, 7)?, optional_time(row, 8)?) {
        (None, None, None) => None,
        (Some(by), Some(api_key), Some(at)) => Some(Authorized {
            by: ApplicationId(by),
            api_key: ApiKeyId(api_key),
            at,
            access: AccessPolicy::from_text(column(row, 9)?).ok_or_else(unknown)?,
        }),
        (_, _, _) => return Err(unknown()),
    };
    let record = AccessSessionRecord {
        id: AccessSessionId(array(row, 0)?),
        nonce: array(row, 1)?,
        tenant: TenantId(column(row, 2)?),
        application: ApplicationId(column(row, 3)?),
        created_at: time(row, 4)?,
        expires_at: time(row, 5)?,
        authorized,
    };
    Ok(Signed { record, mac: Mac(array(row, 10)?) })
}

const AUTHORIZE_SESSION: &str = "
-- authorize_access_session
UPDATE access_sessions SET expires_at = $3, authorized_by = $4, authorized_key = $5, authorized_at = $6,
    access = $7, mac = $8
WHERE tenant = $1 AND digest = $2 AND authorized_by IS NULL";

pub(super) async fn authorize_access_session(
    transaction: &mut Transaction,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<Changed, StoreError> {
    let record = &session.record;
    let authorized = record.authorized.as_ref();
    let changed = transaction
        .execute(
            AUTHORIZE_SESSION,
            &[
                &transaction.tenant.0,
                &record.id.0.as_slice(),
                &record.expires_at.unix_ms,
                &authorized.map(|it| it.by.0),
                &authorized.map(|it| it.api_key.0),
                &authorized.map(|it| it.at.unix_ms),
                &authorized.map(|it| it.access.to_text()),
                &session.mac.0.as_slice(),
            ],
        )
        .await?;
    if changed == 0 {
        return Ok(Changed::Stale);
    }
    insert_beside(transaction, written, "done").await?;
    Ok(Changed::Done)
}

const FORGET_SESSIONS: &str = "
-- forget_access_sessions
DELETE FROM access_sessions WHERE (tenant, digest) IN (
    SELECT tenant, digest FROM access_sessions WHERE expires_at <= $1 LIMIT $2
    FOR UPDATE SKIP LOCKED
)";

pub(super) async fn forget_access_sessions(
    client: &Single<'_>,
    before: Timestamp,
) -> Result<usize, StoreError> {
    execute(client, FORGET_SESSIONS, &[&before.unix_ms, &FORGOTTEN_AT_ONCE]).await.map(count)
}

const LIST_SESSIONS: &str = concat!(
    "-- list_access_sessions\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND expires_at > $2 ORDER BY expires_at DESC, digest LIMIT $3"
);

const REVOKE_SESSION: &str = "
-- revoke_access_session
DELETE FROM access_sessions WHERE tenant = $1 AND digest = $2";

impl AccessSessionStore for PostgresStore {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut it = self.begin(mandate.tenant().id).await?;
            insert_access_session(&mut it, &session, &written).await?;
            it.commit().await
        })
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        Box::pin(async move { find_access_session(&self.of_every_tenant(), id).await })
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(async move { find_access_session_by_nonce(&self.of(tenant), tenant, nonce).await })
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let mut it = self.begin(mandate.tenant().id).await?;
            let authorized = authorize_access_session(&mut it, &session, &written).await?;
            changed(it, authorized).await
        })
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move { forget_access_sessions(&self.of_every_tenant(), before).await })
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        let most = i64::try_from(sessions_max).unwrap_or(i64::MAX);
        Box::pin(async move {
            let client = self.of(tenant);
            let rows = query(&client, LIST_SESSIONS, &[&tenant.0, &now.unix_ms, &most]).await?;
            rows.iter().map(session).collect()
        })
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        Box::pin(async move {
            let tenant = mandate.tenant().id;
            let mut it = self.begin(tenant).await?;
            let removed = it.execute(REVOKE_SESSION, &[&tenant.0, &id.0.as_slice()]).await?;
            if removed == 0 {
                return changed(it, Changed::Stale).await;
            }
            insert_beside(&mut it, &written, "done").await?;
            changed(it, Changed::Done).await
        })
    }
}
