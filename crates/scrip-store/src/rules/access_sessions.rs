//! Access sessions.

use scrip_core::{
    id::TenantId,
    policy::{AccessSessionId, AccessSessionRecord, Signed, access_session::Authorized},
    store::{Beside, Changed, StoreError},
    time::Timestamp,
};

use crate::{
    rules::answers::insert_beside,
    sql::{ColumnReader, Statements, WriteTransaction, optional, parameters, required},
};

const INSERT_SESSION: &str = "
-- insert_access_session
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

pub(crate) async fn insert_access_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<(), StoreError> {
    let record = &session.record;
    let row = parameters![
        tenant,
        &record.id,
        &record.nonce,
        record.application,
        record.created_at,
        record.expires_at,
        &session.mac,
    ];
    transaction.execute(INSERT_SESSION, &row).await?;
    insert_beside(transaction, tenant, written, "done").await
}

/// In the order that [`access_session`] reads them.
macro_rules! session_columns {
    () => {
        "digest, nonce, tenant, application, created_at, expires_at, authorized_by, \
         authorized_key, authorized_at, access, mac FROM access_sessions"
    };
}

const FIND_SESSION: &str =
    concat!("-- find_access_session\nSELECT ", session_columns!(), " WHERE digest = $1");

pub(crate) async fn find_access_session(
    client: &impl Statements,
    id: AccessSessionId,
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    client.find(FIND_SESSION, &parameters![&id], access_session).await
}

const FIND_BY_NONCE: &str = concat!(
    "-- find_access_session_by_nonce\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND nonce = $2"
);

pub(crate) async fn find_access_session_by_nonce(
    client: &impl Statements,
    tenant: TenantId,
    nonce: [u8; 32],
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    client.find(FIND_BY_NONCE, &parameters![tenant, &nonce], access_session).await
}

const LIST_SESSIONS: &str = concat!(
    "-- list_access_sessions\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND expires_at > $2 ORDER BY expires_at DESC, digest LIMIT $3"
);

pub(crate) async fn list_access_sessions(
    client: &impl Statements,
    tenant: TenantId,
    now: Timestamp,
    sessions_max: usize,
) -> Result<Vec<Signed<AccessSessionRecord>>, StoreError> {
    client.query(LIST_SESSIONS, &parameters![tenant, now, sessions_max], access_session).await
}

fn access_session(row: &dyn ColumnReader) -> Result<Signed<AccessSessionRecord>, StoreError> {
    let unknown = || StoreError::Corrupt("the row of an access session is not one of ours");
    decode(row).ok_or_else(unknown)
}

fn decode(row: &dyn ColumnReader) -> Option<Signed<AccessSessionRecord>> {
    let (by, api_key) = (optional(row, 6).ok()?, optional(row, 7).ok()?);
    let authorized = match (by, api_key, optional(row, 8).ok()?) {
        (None, None, None) => None,
        (Some(by), Some(api_key), Some(at)) => {
            Some(Authorized { by, api_key, at, access: required(row, 9).ok()? })
        }
        (_, _, _) => return None,
    };
    let record = AccessSessionRecord {
        id: required(row, 0).ok()?,
        nonce: required(row, 1).ok()?,
        tenant: required(row, 2).ok()?,
        application: required(row, 3).ok()?,
        created_at: required(row, 4).ok()?,
        expires_at: required(row, 5).ok()?,
        authorized,
    };
    Some(Signed { record, mac: required(row, 10).ok()? })
}

const AUTHORIZE_SESSION: &str = "
-- authorize_access_session
UPDATE access_sessions SET expires_at = $1, authorized_by = $2, authorized_key = $3,
    authorized_at = $4, access = $5, mac = $6
WHERE tenant = $7 AND digest = $8 AND authorized_by IS NULL";

/// Whoever comes second finds it authorized.
pub(crate) async fn authorize_access_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<Changed, StoreError> {
    let record = &session.record;
    let authorized = record.authorized.as_ref();
    let row = parameters![
        record.expires_at,
        authorized.map(|it| it.by),
        authorized.map(|it| it.api_key),
        authorized.map(|it| it.at),
        authorized.map(|it| it.access.to_text()),
        &session.mac,
        tenant,
        &record.id,
    ];
    if transaction.execute(AUTHORIZE_SESSION, &row).await? == 0 {
        return Ok(Changed::Stale);
    }
    insert_beside(transaction, tenant, written, "done").await?;
    Ok(Changed::Done)
}

const REVOKE_SESSION: &str = "
-- revoke_access_session
DELETE FROM access_sessions WHERE tenant = $1 AND digest = $2";

pub(crate) async fn revoke_access_session<T: WriteTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    id: AccessSessionId,
    written: &Beside,
) -> Result<Changed, StoreError> {
    if transaction.execute(REVOKE_SESSION, &parameters![tenant, &id]).await? == 0 {
        return Ok(Changed::Stale);
    }
    insert_beside(transaction, tenant, written, "done").await?;
    Ok(Changed::Done)
}
