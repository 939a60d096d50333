//! Access sessions.

use scrip_core::{
    policy::{AccessSessionId, AccessSessionRecord, Mandate, Signed},
    store::{AccessSessionStore, Beside, Changed, StoreFuture},
    time::Timestamp,
};

use crate::{
    rules::access_sessions::{
        authorize_access_session, find_access_session, find_access_session_by_nonce,
        insert_access_session, list_access_sessions, revoke_access_session,
    },
    sql::{parameters, run_ready},
    sqlite::{SqliteStore, engine::statement::execute},
};

const FORGOTTEN_AT_ONCE: i64 = 256;

const FORGET_SESSIONS: &str = "
-- forget_access_sessions
DELETE FROM access_sessions WHERE seq IN (
    SELECT seq FROM access_sessions WHERE expires_at <= $1 LIMIT $2
)";

impl AccessSessionStore for SqliteStore {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        let tenant = mandate.tenant().id;
        self.write(move |it| run_ready(insert_access_session(it, tenant, &session, &written)))
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        self.read(move |it| run_ready(find_access_session(it, id)))
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        self.read(move |it| run_ready(find_access_session_by_nonce(it, tenant, nonce)))
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        let tenant = mandate.tenant().id;
        self.write(move |it| run_ready(authorize_access_session(it, tenant, &session, &written)))
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.write(move |it| execute(it, FORGET_SESSIONS, &parameters![before, FORGOTTEN_AT_ONCE]))
    }

    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        self.read(move |it| run_ready(list_access_sessions(it, tenant, now, sessions_max)))
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        let tenant = mandate.tenant().id;
        self.write(move |it| run_ready(revoke_access_session(it, tenant, id, &written)))
    }
}
