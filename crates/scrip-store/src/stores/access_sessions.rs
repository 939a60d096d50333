//! Access sessions.

use scrip_core::{
    Timestamp,
    audit::LogKind,
    change::{ChangeOutcome, CommitExtras},
    policy::{
        AccessSessionId, AccessSessionRecord, PolicyPermit, SignedRow,
        access_session::AccessSessionGrant,
    },
    store::AccessSessionStore,
    types::{StoreError, StoreFuture},
};

use crate::{
    shared::idempotency::insert_commit_extras,
    sql::{
        BatchDelete, ColumnReader, Execute, Statements, delete_batch, parameters, read_optional,
        read_required,
    },
    stores::both_engines::for_both_engines,
};

const INSERT_SESSION: &str = "
-- insert_access_session
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// The columns in the order in which [`decode_access_session`] reads them.
macro_rules! session_columns {
    () => {
        "digest, nonce, tenant, application, created_at, expires_at, authorized_by, \
         authorized_key, authorized_at, access, mac FROM access_sessions"
    };
}

const FIND_SESSION: &str =
    concat!("-- find_access_session\nSELECT ", session_columns!(), " WHERE digest = $1");

const FIND_BY_NONCE: &str = concat!(
    "-- find_access_session_by_nonce\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND nonce = $2"
);

const LIST_SESSIONS: &str = concat!(
    "-- list_access_sessions\nSELECT ",
    session_columns!(),
    " WHERE tenant = $1 AND expires_at > $2 ORDER BY expires_at DESC, digest LIMIT $3"
);

const AUTHORIZE_SESSION: &str = "
-- authorize_access_session
UPDATE access_sessions SET expires_at = $1, authorized_by = $2, authorized_key = $3,
    authorized_at = $4, access = $5, mac = $6
WHERE tenant = $7 AND digest = $8 AND authorized_by IS NULL";

const REVOKE_SESSION: &str = "
-- revoke_access_session
DELETE FROM access_sessions WHERE tenant = $1 AND digest = $2";

const DELETE_EXPIRED_SESSIONS: BatchDelete = delete_batch!(
    "delete_expired_access_sessions",
    "access_sessions",
    "expires_at <= $1",
    sqlite: "seq" up to 256,
    postgres: "tenant, digest" up to 256,
);

for_both_engines! {
impl AccessSessionStore {
    fn insert_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let SignedRow { record, mac } = &session;
            let row = parameters![
                tenant,
                &record.id,
                &record.nonce,
                record.application,
                record.created_at,
                record.expires_at,
                mac,
            ];
            it.execute(INSERT_SESSION, &row).await?;
            insert_commit_extras(it, tenant, &extras, "done").await
        }))
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<SignedRow<AccessSessionRecord>>> {
        Box::pin(async move {
            self.for_all_tenants().find(FIND_SESSION, &parameters![&id], decode_access_session).await
        })
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<SignedRow<AccessSessionRecord>>> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let key = parameters![tenant, &nonce];
            self.for_tenant(tenant).find(FIND_BY_NONCE, &key, decode_access_session).await
        })
    }

    /// A session is authorized once: a second authorization changes no row.
    fn authorize_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let SignedRow { record, mac } = &session;
            let grant = record.grant.as_ref();
            let row = parameters![
                record.expires_at,
                grant.map(|it| it.authorizer),
                grant.map(|it| it.api_key),
                grant.map(|it| it.at),
                grant.map(|it| it.access.to_text()),
                mac,
                tenant,
                &record.id,
            ];
            if it.execute(AUTHORIZE_SESSION, &row).await? == 0 {
                return Ok(ChangeOutcome::Stale);
            }
            insert_commit_extras(it, tenant, &extras, "done").await?;
            Ok(ChangeOutcome::Done)
        }))
    }

    fn delete_expired_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_batch(LogKind::Audit, &DELETE_EXPIRED_SESSIONS, before))
    }

    fn list_access_sessions<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<SignedRow<AccessSessionRecord>>> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let parameters = parameters![tenant, now, sessions_max];
            self.for_tenant(tenant).query(LIST_SESSIONS, &parameters, decode_access_session).await
        })
    }

    fn revoke_access_session(
        &self,
        permit: PolicyPermit,
        id: AccessSessionId,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            if it.execute(REVOKE_SESSION, &parameters![tenant, &id]).await? == 0 {
                return Ok(ChangeOutcome::Stale);
            }
            insert_commit_extras(it, tenant, &extras, "done").await?;
            Ok(ChangeOutcome::Done)
        }))
    }
}
}

fn decode_access_session(
    row: &dyn ColumnReader,
) -> Result<SignedRow<AccessSessionRecord>, StoreError> {
    let invalid_row = || StoreError::Corrupt("the row of an access session is invalid");
    decode_columns(row).ok_or_else(invalid_row)
}

fn decode_columns(row: &dyn ColumnReader) -> Option<SignedRow<AccessSessionRecord>> {
    let (authorizer, api_key) = (read_optional(row, 6).ok()?, read_optional(row, 7).ok()?);
    let grant = match (authorizer, api_key, read_optional(row, 8).ok()?) {
        (None, None, None) => None,
        (Some(authorizer), Some(api_key), Some(at)) => Some(AccessSessionGrant {
            authorizer,
            api_key,
            at,
            access: read_required(row, 9).ok()?,
        }),
        (_, _, _) => return None,
    };
    let record = AccessSessionRecord {
        id: read_required(row, 0).ok()?,
        nonce: read_required(row, 1).ok()?,
        tenant: read_required(row, 2).ok()?,
        application: read_required(row, 3).ok()?,
        created_at: read_required(row, 4).ok()?,
        expires_at: read_required(row, 5).ok()?,
        grant,
    };
    Some(SignedRow { record, mac: read_required(row, 10).ok()? })
}
