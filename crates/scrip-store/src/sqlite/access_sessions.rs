//! Access sessions.

use rusqlite::{Connection, named_params};
use scrip_core::{
    access_session::{AccessSessionId, AccessSessionRecord},
    caller::Mandate,
    policy::Signed,
    store::{AccessSessionStore, Beside, Changed, StoreError, StoreFuture},
    time::Timestamp,
};

use crate::{
    shared::access_sessions::{list_access_sessions, revoke_access_session},
    sql::run_ready,
    sqlite::{SqliteStore, Within, fault},
};

const FORGOTTEN_AT_ONCE: i64 = 256;

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

impl AccessSessionStore for SqliteStore {
    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        let tenant = mandate.tenant().id;
        Box::pin(async move {
            self.readers.read(|it| run_ready(list_access_sessions(it, tenant, now, sessions_max)))
        })
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        let tenant = mandate.tenant().id;
        let revoke = move |it: Within<'_, '_>| run_ready(revoke_access_session(it, tenant, id, &written));
        Box::pin(self.writer.write(revoke))
    }
}
