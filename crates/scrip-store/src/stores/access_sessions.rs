//! Access sessions.

use std::sync::LazyLock;

use scrip_core::{
    Timestamp,
    audit::LogKind,
    change::{ChangeOutcome, CommitExtras},
    policy::{
        AccessSessionId, AccessSessionRecord, PolicyPermit, SignedRow,
        access_session::ACCESS_SESSION, entity::InvalidRow,
    },
    store::AccessSessionStore,
    types::{StoreError, StoreFuture},
};

use crate::{
    shared::{
        idempotency::insert_commit_extras,
        policy::statements::{list_columns, put_values, statements},
    },
    sql::{BatchDelete, ColumnReader, EntityColumns, Execute, Statements, parameters},
};

/// A statement that reads sessions with these clauses.
fn select_sessions(name: &str, clauses: &str) -> String {
    let select = list_columns(&ACCESS_SESSION);
    format!("-- {name}\n{select}\n{clauses}")
}

static FIND_SESSION: LazyLock<String> =
    LazyLock::new(|| select_sessions("find_access_session", "WHERE digest = $1"));

static FIND_BY_NONCE: LazyLock<String> = LazyLock::new(|| {
    select_sessions("find_access_session_by_nonce", "WHERE tenant = $1 AND nonce = $2")
});

static LIST_SESSIONS: LazyLock<String> = LazyLock::new(|| {
    let clauses = "WHERE tenant = $1 AND expires_at > $2 ORDER BY expires_at DESC, digest LIMIT $3";
    select_sessions("list_access_sessions", clauses)
});

#[cfg(test)]
pub(crate) fn list_statements() -> Vec<String> {
    [&FIND_SESSION, &FIND_BY_NONCE, &LIST_SESSIONS].map(|it| it.to_string()).into()
}

const AUTHORIZE_SESSION: &str = "
-- authorize_access_session
UPDATE access_sessions SET expires_at = $1, authorized_by = $2, authorized_key = $3,
    authorized_at = $4, access = $5, mac = $6
WHERE tenant = $7 AND digest = $8 AND authorized_by IS NULL";

const DELETE_EXPIRED_SESSIONS: BatchDelete = BatchDelete {
    sqlite: "
-- delete_expired_access_sessions
DELETE FROM access_sessions WHERE seq IN (
    SELECT seq FROM access_sessions WHERE expires_at <= $1 LIMIT $2)",
    postgres: "
-- delete_expired_access_sessions
DELETE FROM access_sessions WHERE (tenant, digest) IN (
    SELECT tenant, digest FROM access_sessions WHERE expires_at <= $1
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 256,
    postgres_rows_max: 256,
};

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
            put_values(it, &ACCESS_SESSION, session.values()).await?;
            insert_commit_extras(it, tenant, &extras, "done").await
        }))
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<SignedRow<AccessSessionRecord>>> {
        Box::pin(async move {
            self.for_all_tenants().find(&FIND_SESSION, &parameters![&id], decode_access_session).await
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
            self.for_tenant(tenant).find(&FIND_BY_NONCE, &key, decode_access_session).await
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
            self.for_tenant(tenant).query(&LIST_SESSIONS, &parameters, decode_access_session).await
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
            let statement = &statements(&ACCESS_SESSION)?.delete;
            if it.execute(statement, &parameters![tenant, &id]).await? == 0 {
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
    let invalid_row = |InvalidRow| StoreError::Corrupt("the row of an access session is invalid");
    SignedRow::read(&EntityColumns(row)).map_err(invalid_row)
}
