//! Access sessions.

use scrip_core::{
    Timestamp,
    change::{ChangeOutcome, CommitExtras},
    policy::{AccessSessionId, AccessSessionRecord, PolicyPermit, SignedRow},
    store::AccessSessionStore,
    types::StoreFuture,
};

use crate::memory::MemoryStore;

impl AccessSessionStore for MemoryStore {
    fn insert_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            it.insert_commit_extras(permit.tenant().id, extras, "done")?;
            it.access_sessions.push(session);
            Ok(())
        })
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<SignedRow<AccessSessionRecord>>> {
        self.with(move |it| it.access_sessions.iter().find(|it| it.record.id == id).cloned())
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<SignedRow<AccessSessionRecord>>> {
        self.with(move |it| {
            let tenant = permit.tenant().id;
            let is_requested = |it: &&SignedRow<AccessSessionRecord>| {
                it.record.nonce == nonce && it.record.tenant == tenant
            };
            it.access_sessions.iter().find(is_requested).cloned()
        })
    }

    fn authorize_access_session(
        &self,
        permit: PolicyPermit,
        session: SignedRow<AccessSessionRecord>,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.attempt(move |it| {
            let tenant = permit.tenant().id;
            let is_requested = |it: &&mut SignedRow<AccessSessionRecord>| {
                it.record.id == session.record.id
                    && it.record.tenant == tenant
                    && it.record.grant.is_none()
            };
            let Some(stored) = it.access_sessions.iter_mut().find(is_requested) else {
                return Ok(ChangeOutcome::Stale);
            };
            *stored = session;
            it.insert_commit_extras(tenant, extras, "done")?;
            Ok(ChangeOutcome::Done)
        })
    }

    fn delete_expired_access_sessions(&self, cutoff: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let count_before = it.access_sessions.len();
            it.access_sessions.retain(|it| it.record.expires_at > cutoff);
            count_before - it.access_sessions.len()
        })
    }

    fn list_access_sessions<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        now: Timestamp,
        sessions_max: usize,
    ) -> StoreFuture<'a, Vec<SignedRow<AccessSessionRecord>>> {
        self.with(move |it| {
            let tenant = permit.tenant().id;
            let mut sessions = it.access_sessions.clone();
            sessions.retain(|it| it.record.tenant == tenant && it.record.expires_at > now);
            sessions.sort_by_key(|it| (std::cmp::Reverse(it.record.expires_at), it.record.id.0));
            sessions.truncate(sessions_max);
            sessions
        })
    }

    fn revoke_access_session(
        &self,
        permit: PolicyPermit,
        id: AccessSessionId,
        extras: CommitExtras,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.attempt(move |it| {
            let tenant = permit.tenant().id;
            let count_before = it.access_sessions.len();
            it.access_sessions.retain(|it| (it.record.tenant, it.record.id) != (tenant, id));
            if it.access_sessions.len() == count_before {
                return Ok(ChangeOutcome::Stale);
            }
            it.insert_commit_extras(tenant, extras, "done")?;
            Ok(ChangeOutcome::Done)
        })
    }
}
