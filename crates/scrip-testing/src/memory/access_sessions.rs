//! Access sessions, for the operator.

use scrip_core::{
    access_session::{AccessSessionId, AccessSessionRecord},
    caller::Mandate,
    policy::Signed,
    store::{AccessSessionStore, Beside, Changed, StoreFuture},
    time::Timestamp,
};

use crate::memory::MemoryStore;

impl AccessSessionStore for MemoryStore {
    fn list_access_sessions<'a>(
        &'a self,
        mandate: &'a Mandate,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<Signed<AccessSessionRecord>>> {
        self.with(move |it| {
            let tenant = mandate.tenant().id;
            let mut found = it.access_sessions.clone();
            found.retain(|it| it.record.tenant == tenant && it.record.expires_at > now);
            found.sort_by_key(|it| (std::cmp::Reverse(it.record.expires_at), it.record.id.0));
            found.truncate(sessions_max);
            found
        })
    }

    fn revoke_access_session(
        &self,
        mandate: Mandate,
        id: AccessSessionId,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        self.attempt(move |it| {
            let tenant = mandate.tenant().id;
            let had = it.access_sessions.len();
            it.access_sessions.retain(|it| (it.record.tenant, it.record.id) != (tenant, id));
            if it.access_sessions.len() == had {
                return Ok(Changed::Stale);
            }
            it.beside(tenant, written, "done")?;
            Ok(Changed::Done)
        })
    }
}
