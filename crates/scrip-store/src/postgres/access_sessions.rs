//! Access sessions.

use scrip_core::{
    access_session::{AccessSessionId, AccessSessionRecord},
    caller::Mandate,
    policy::Signed,
    store::{AccessSessionStore, Beside, Changed, StoreError, StoreFuture},
    time::Timestamp,
};

use crate::{
    postgres::{
        PostgresStore, changed,
        statement::{Single, count, execute},
    },
    shared::access_sessions::{list_access_sessions, revoke_access_session},
};

const FORGOTTEN_AT_ONCE: i64 = 256;

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

impl AccessSessionStore for PostgresStore {
    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(async move {
            list_access_sessions(&self.of(tenant), tenant, now, sessions_max).await
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
            let revoked = revoke_access_session(&mut it, tenant, id, &written).await?;
            changed(it, revoked).await
        })
    }
}
