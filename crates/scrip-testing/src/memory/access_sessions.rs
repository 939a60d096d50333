//! Access sessions, for the operator.

use scrip_core::{
    policy::{AccessSessionId, AccessSessionRecord, Mandate, Signed},
    store::{AccessSessionStore, Beside, Changed, StoreFuture},
    time::Timestamp,
};

use crate::memory::MemoryStore;

impl AccessSessionStore for MemoryStore {
    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            it.beside(mandate.tenant().id, written, "done")?;
            it.access_sessions.push(session);
            Ok(())
        })
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        self.with(move |it| it.access_sessions.iter().find(|it| it.record.id == id).cloned())
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        self.with(move |it| {
            let tenant = mandate.tenant().id;
            let is = |it: &&Signed<AccessSessionRecord>| {
                it.record.nonce == nonce && it.record.tenant == tenant
            };
            it.access_sessions.iter().find(is).cloned()
        })
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        self.attempt(move |it| {
            let tenant = mandate.tenant().id;
            let is = |it: &&mut Signed<AccessSessionRecord>| {
                it.record.id == session.record.id
                    && it.record.tenant == tenant
                    && it.record.authorized.is_none()
            };
            let Some(found) = it.access_sessions.iter_mut().find(is) else {
                return Ok(Changed::Stale);
            };
            *found = session;
            it.beside(tenant, written, "done")?;
            Ok(Changed::Done)
        })
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.access_sessions.len();
            it.access_sessions.retain(|it| it.record.expires_at > before);
            had - it.access_sessions.len()
        })
    }

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
