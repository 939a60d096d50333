//! Access sessions.

use rusqlite::{Connection, OptionalExtension, Params, Row, named_params};
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

use crate::sqlite::{
    SqliteStore, Within, answers::insert_beside, directory::text, fault, row::uuid,
    transaction::Transaction,
};

const FORGOTTEN_AT_ONCE: i64 = 256;

const INSERT_SESSION: &str = "
-- insert_access_session
INSERT INTO access_sessions (digest, nonce, tenant, application, created_at, expires_at, mac)
VALUES (:digest, :nonce, :tenant, :application, :created_at, :expires_at, :mac)";

pub(super) fn insert_access_session(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<(), StoreError> {
    let record = &session.record;
    transaction
        .prepare_cached(INSERT_SESSION)
        .and_then(|mut it| {
            it.execute(named_params! {
                ":digest": record.id.0,
                ":nonce": record.nonce,
                ":tenant": tenant.0.as_bytes(),
                ":application": record.application.0.as_bytes(),
                ":created_at": record.created_at.unix_ms,
                ":expires_at": record.expires_at.unix_ms,
                ":mac": session.mac.0,
            })
        })
        .map_err(fault)?;
    insert_beside(transaction, tenant, written, "done")
}

macro_rules! session_columns {
    () => {
        "digest, nonce, tenant, application, created_at, expires_at, authorized_by, \
         authorized_key, authorized_at, access, mac FROM access_sessions"
    };
}

const FIND_SESSION: &str =
    concat!("-- find_access_session\nSELECT ", session_columns!(), " WHERE digest = ?1");

pub(super) fn find_access_session(
    connection: &Connection,
    id: AccessSessionId,
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    find(connection, FIND_SESSION, [id.0])
}

const FIND_BY_NONCE: &str = concat!(
    "-- find_access_session_by_nonce\nSELECT ",
    session_columns!(),
    " WHERE nonce = ?1 AND tenant = ?2"
);

pub(super) fn find_access_session_by_nonce(
    connection: &Connection,
    tenant: TenantId,
    nonce: [u8; 32],
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    find(connection, FIND_BY_NONCE, (nonce, tenant.0.as_bytes()))
}

fn find(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Option<Signed<AccessSessionRecord>>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let session = statement.query_row(parameters, |row| Ok(session(row)));
    match session.optional().map_err(fault)? {
        Some(None) => Err(StoreError::Corrupt("the row of an access session is not one of ours")),
        found => Ok(found.flatten()),
    }
}

fn session(row: &Row<'_>) -> Option<Signed<AccessSessionRecord>> {
    let by: Option<[u8; 16]> = row.get(6).ok()?;
    let api_key: Option<[u8; 16]> = row.get(7).ok()?;
    let at: Option<i64> = row.get(8).ok()?;
    let authorized = match (by, api_key, at) {
        (None, None, None) => None,
        (Some(by), Some(api_key), Some(unix_ms)) => Some(Authorized {
            by: ApplicationId(uuid(by)),
            api_key: ApiKeyId(uuid(api_key)),
            at: Timestamp { unix_ms },
            access: AccessPolicy::from_text(&text(row, 9)?)?,
        }),
        (_, _, _) => return None,
    };
    let record = AccessSessionRecord {
        id: AccessSessionId(row.get(0).ok()?),
        nonce: row.get(1).ok()?,
        tenant: TenantId(uuid(row.get(2).ok()?)),
        application: ApplicationId(uuid(row.get(3).ok()?)),
        created_at: Timestamp { unix_ms: row.get(4).ok()? },
        expires_at: Timestamp { unix_ms: row.get(5).ok()? },
        authorized,
    };
    Some(Signed { record, mac: Mac(row.get(10).ok()?) })
}

const AUTHORIZE_SESSION: &str = "
-- authorize_access_session
UPDATE access_sessions SET expires_at = :expires_at, authorized_by = :authorized_by,
    authorized_key = :authorized_key, authorized_at = :authorized_at, access = :access, mac = :mac
WHERE digest = :digest AND tenant = :tenant AND authorized_by IS NULL";

pub(super) fn authorize_access_session(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    session: &Signed<AccessSessionRecord>,
    written: &Beside,
) -> Result<Changed, StoreError> {
    let record = &session.record;
    let authorized = record.authorized.as_ref();
    let changed = transaction
        .prepare_cached(AUTHORIZE_SESSION)
        .and_then(|mut it| {
            it.execute(named_params! {
                ":digest": record.id.0,
                ":tenant": tenant.0.as_bytes(),
                ":expires_at": record.expires_at.unix_ms,
                ":authorized_by": authorized.map(|it| *it.by.0.as_bytes()),
                ":authorized_key": authorized.map(|it| *it.api_key.0.as_bytes()),
                ":authorized_at": authorized.map(|it| it.at.unix_ms),
                ":access": authorized.map(|it| it.access.to_text()),
                ":mac": session.mac.0,
            })
        })
        .map_err(fault)?;
    if changed == 0 {
        return Ok(Changed::Stale);
    }
    insert_beside(transaction, tenant, written, "done")?;
    Ok(Changed::Done)
}

const FORGET_SESSIONS: &str = "
-- forget_access_sessions
DELETE FROM access_sessions WHERE seq IN (
    SELECT seq FROM access_sessions WHERE expires_at <= :before LIMIT :at_once
)";

pub(super) fn forget_access_sessions(
    connection: &Connection,
    before: Timestamp,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(FORGET_SESSIONS).map_err(fault)?;
    let parameters = named_params! { ":at_once": FORGOTTEN_AT_ONCE, ":before": before.unix_ms };
    statement.execute(parameters).map_err(fault)
}

const LIST_SESSIONS: &str = concat!(
    "-- list_access_sessions\nSELECT ",
    session_columns!(),
    " WHERE tenant = ?1 AND expires_at > ?2 ORDER BY expires_at DESC, digest LIMIT ?3"
);

const REVOKE_SESSION: &str = "
-- revoke_access_session
DELETE FROM access_sessions WHERE digest = ?1 AND tenant = ?2";

fn list_access_sessions(
    connection: &Connection,
    tenant: TenantId,
    now: Timestamp,
    sessions_max: usize,
) -> Result<Vec<Signed<AccessSessionRecord>>, StoreError> {
    let most = i64::try_from(sessions_max).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(LIST_SESSIONS).map_err(fault)?;
    let parameters = (tenant.0.as_bytes(), now.unix_ms, most);
    let rows = statement.query_map(parameters, |row| Ok(session(row))).map_err(fault)?;
    let unknown = || StoreError::Corrupt("the row of an access session is not one of ours");
    rows.map(|row| row.map_err(fault)?.ok_or_else(unknown)).collect()
}

fn revoke_access_session(
    transaction: &mut Transaction<'_>,
    tenant: TenantId,
    id: AccessSessionId,
    written: &Beside,
) -> Result<Changed, StoreError> {
    let mut statement = transaction.prepare_cached(REVOKE_SESSION).map_err(fault)?;
    let removed = statement.execute((id.0, tenant.0.as_bytes())).map_err(fault)?;
    drop(statement);
    if removed == 0 {
        return Ok(Changed::Stale);
    }
    insert_beside(transaction, tenant, written, "done")?;
    Ok(Changed::Done)
}

impl AccessSessionStore for SqliteStore {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        let tenant = mandate.tenant().id;
        let insert =
            move |it: Within<'_, '_>| insert_access_session(it, tenant, &session, &written);
        Box::pin(self.writer.write(insert))
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        Box::pin(async move { self.readers.read(|it| find_access_session(it, id)) })
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(
            async move { self.readers.read(|it| find_access_session_by_nonce(it, tenant, nonce)) },
        )
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        let tenant = mandate.tenant().id;
        let work =
            move |it: Within<'_, '_>| authorize_access_session(it, tenant, &session, &written);
        Box::pin(self.writer.write(work))
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| forget_access_sessions(it, before)))
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(async move {
            self.readers.read(|it| list_access_sessions(it, tenant, now, sessions_max))
        })
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        let tenant = mandate.tenant().id;
        let revoke = move |it: Within<'_, '_>| revoke_access_session(it, tenant, id, &written);
        Box::pin(self.writer.write(revoke))
    }
}
