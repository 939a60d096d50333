//! 3-D Secure sessions and what is to be told of them, in lists.

use scrip_core::{
    id::{SessionId, TenantId, TokenId},
    policy::{Inquiry, Signed},
    store::{Changed, EventStore, SessionStore, StoreError, StoreFuture},
    threeds::{
        CardReference, ConvertedIntent, EventRecord, SessionCard, SessionRecord, SessionWrite,
    },
    time::Timestamp,
};

use crate::memory::{MemoryStore, State};

impl SessionStore for MemoryStore {
    fn insert_session(&self, inquiry: Inquiry, write: SessionWrite) -> StoreFuture<'_, ()> {
        self.attempt(move |state| {
            let tenant = inquiry.tenant().id;
            if write.session.tenant != tenant {
                return Err(StoreError::Corrupt("a session of another tenant"));
            }
            state.check_tenant(tenant)?;
            if state.sessions.iter().any(|it| it.id == write.session.id) {
                return Err(StoreError::Unavailable("the id is taken".into()));
            }
            state.sessions.push(write.session.clone());
            state.write_with(write)
        })
    }

    fn find_session(
        &self,
        inquiry: Inquiry,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        self.with(move |it| {
            let found = it.find_session(id, now);
            found.filter(|it| it.tenant == inquiry.tenant().id)
        })
    }

    fn find_notified_session(
        &self,
        id: SessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<SessionRecord>> {
        self.with(move |it| it.find_session(id, now))
    }

    fn update_session(&self, write: SessionWrite) -> StoreFuture<'_, Changed> {
        self.attempt(move |state| {
            let session = &write.session;
            state.check_tenant(session.tenant)?;
            let is = |it: &&mut SessionRecord| {
                it.id == session.id
                    && it.tenant == session.tenant
                    && Some(it.revision) == session.revision.checked_sub(1)
            };
            let Some(found) = state.sessions.iter_mut().find(is) else { return Ok(Changed::Stale) };
            let SessionRecord { ends_at, revision, body, .. } = session.clone();
            *found = SessionRecord { ends_at, revision, body, ..found.clone() };
            state.write_with(write)?;
            Ok(Changed::Done)
        })
    }

    fn is_named_by_session<'a>(
        &'a self,
        inquiry: Inquiry,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        self.with(move |it| it.names_token(inquiry.tenant().id, token, now))
    }
}

impl EventStore for MemoryStore {
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>> {
        self.with(move |state| {
            let behind = state.events.iter().filter(|(number, _)| *number > after);
            behind.take(events_max).cloned().collect()
        })
    }

    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let had = state.events.len();
            state.events.retain(|(_, it)| it.at > before);
            had - state.events.len()
        })
    }
}

impl State {
    pub(super) fn names_token(&self, tenant: TenantId, token: &TokenId, now: Timestamp) -> bool {
        self.sessions.iter().any(|it| {
            it.tenant == tenant
                && it.card.token() == Some(token)
                && it.ends_at.is_none_or(|it| it > now)
        })
    }

    /// What commits with the session's row.
    fn write_with(&mut self, write: SessionWrite) -> Result<(), StoreError> {
        let SessionWrite { session, events, audit, outcome, used, answer } = write;
        for event in events {
            self.last_event += 1;
            self.events.push((self.last_event, event));
        }
        self.record(session.tenant, &audit, &session.id.to_string(), outcome);
        if let Some((operation, entity)) = used.as_ref().map(CardReference::recorded) {
            self.record(session.tenant, &audit.also(operation), &entity, "used");
        }
        self.remember(session.tenant, answer, &[])
    }

    /// Names the token that the intent of these sessions became.
    pub(super) fn convert_card(&mut self, signed: &Signed<ConvertedIntent>) {
        for session in self.sessions.iter_mut().filter(|it| it.tenant == signed.record.tenant) {
            let id = session.card.intent().filter(|it| *it == signed.record.intent);
            if let Some(id) = id {
                session.card = SessionCard::Intent { id, converted: Some(signed.clone()) };
            }
        }
    }

    pub(super) fn find_session(&self, id: SessionId, now: Timestamp) -> Option<SessionRecord> {
        let is = |it: &&SessionRecord| it.id == id && it.ends_at.is_none_or(|it| it > now);
        self.sessions.iter().find(is).cloned()
    }
}
