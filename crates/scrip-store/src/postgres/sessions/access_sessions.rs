//! Access sessions.

use scrip_core::{
    policy::{AccessSessionId, AccessSessionRecord, Mandate, Signed},
    store::{AccessSessionStore, Beside, Changed, StoreFuture},
    time::Timestamp,
};

use crate::{
    postgres::{PostgresStore, changed},
    rules::access_sessions::{
        authorize_access_session, find_access_session, find_access_session_by_nonce,
        insert_access_session, list_access_sessions, revoke_access_session,
    },
    sql::{Execute, parameters},
};

const FORGOTTEN_AT_ONCE: i64 = 256;

const FORGET_SESSIONS: &str = "
-- forget_access_sessions
DELETE FROM access_sessions WHERE (tenant, digest) IN (
    SELECT tenant, digest FROM access_sessions WHERE expires_at <= $1 LIMIT $2
    FOR UPDATE SKIP LOCKED
)";

impl AccessSessionStore for PostgresStore {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let tenant = mandate.tenant().id;
            let mut it = self.begin(tenant).await?;
            insert_access_session(&mut it, tenant, &session, &written).await?;
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
            let tenant = mandate.tenant().id;
            let mut it = self.begin(tenant).await?;
            let authorized = authorize_access_session(&mut it, tenant, &session, &written).await?;
            changed(it, authorized).await
        })
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(async move {
            let some = parameters![before, FORGOTTEN_AT_ONCE];
            self.of_every_tenant().execute(FORGET_SESSIONS, &some).await
        })
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(
            async move { list_access_sessions(&self.of(tenant), tenant, now, sessions_max).await },
        )
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
            let revoked = revoke_access_session(&mut it, tenant, id, &written).await?;
            changed(it, revoked).await
        })
    }
}
