//! 3-D Secure sessions, in a list.

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    policy::{LookupPermit, SignedRow},
    store::ThreeDsSessionStore,
    threeds::{
        CardReference, ConvertedIntent, ThreeDsSessionCard, ThreeDsSessionRecord,
        ThreeDsSessionWrite,
    },
    types::{
        StoreError, StoreFuture,
        id::{TenantId, ThreeDsSessionId, TokenId},
    },
};

use crate::memory::{MemoryStore, state::MemoryStoreState};

impl ThreeDsSessionStore for MemoryStore {
    fn insert_threeds_session(
        &self,
        lookup: LookupPermit,
        write: ThreeDsSessionWrite,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |state| {
            let tenant = lookup.tenant().id;
            if write.session.tenant != tenant {
                return Err(StoreError::Corrupt("a session of another tenant"));
            }
            state.check_tenant(tenant)?;
            if state.threeds_sessions.iter().any(|it| it.id == write.session.id) {
                return Err(StoreError::Unavailable("the id is taken".into()));
            }
            state.threeds_sessions.push(write.session.clone());
            state.insert_session_extras(write)
        })
    }

    fn find_threeds_session(
        &self,
        lookup: LookupPermit,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        self.with(move |it| {
            let session = it.find_session(id, now);
            session.filter(|it| it.tenant == lookup.tenant().id)
        })
    }

    fn find_notified_threeds_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> StoreFuture<'_, Option<ThreeDsSessionRecord>> {
        self.with(move |it| it.find_session(id, now))
    }

    fn update_threeds_session(&self, write: ThreeDsSessionWrite) -> StoreFuture<'_, ChangeOutcome> {
        self.attempt(move |state| {
            let session = &write.session;
            state.check_tenant(session.tenant)?;
            let is_requested = |it: &&mut ThreeDsSessionRecord| {
                it.id == session.id
                    && it.tenant == session.tenant
                    && Some(it.revision) == session.revision.checked_sub(1)
            };
            let Some(stored) = state.threeds_sessions.iter_mut().find(is_requested) else {
                return Ok(ChangeOutcome::Stale);
            };
            let ThreeDsSessionRecord { deletes_at, revision, body, .. } = session.clone();
            *stored = ThreeDsSessionRecord { deletes_at, revision, body, ..stored.clone() };
            state.insert_session_extras(write)?;
            Ok(ChangeOutcome::Done)
        })
    }

    fn is_used_by_threeds_session<'a>(
        &'a self,
        lookup: LookupPermit,
        token: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, bool> {
        self.with(move |it| it.is_token_used_by_session(lookup.tenant().id, token, now))
    }
}

impl MemoryStoreState {
    pub(super) fn is_token_used_by_session(
        &self,
        tenant: TenantId,
        token: &TokenId,
        now: Timestamp,
    ) -> bool {
        self.threeds_sessions.iter().any(|it| {
            it.tenant == tenant
                && it.card.token() == Some(token)
                && it.deletes_at.is_none_or(|it| it > now)
        })
    }

    /// Inserts the rows that are committed with the session row.
    fn insert_session_extras(&mut self, write: ThreeDsSessionWrite) -> Result<(), StoreError> {
        let ThreeDsSessionWrite { session, deliveries, audit, outcome, used_card, idempotency } =
            write;
        self.insert_deliveries(deliveries);
        self.append_audit_record(session.tenant, &audit, &session.id.to_string(), outcome);
        if let Some((operation, entity)) = used_card.as_ref().map(CardReference::audit_subject) {
            self.append_audit_record(
                session.tenant,
                &audit.with_operation(operation),
                &entity,
                "used",
            );
        }
        self.insert_idempotency_record(session.tenant, idempotency, &[])
    }

    /// Sets the token that the intent of these sessions was converted to.
    pub(super) fn convert_card(&mut self, signed: &SignedRow<ConvertedIntent>) {
        for session in
            self.threeds_sessions.iter_mut().filter(|it| it.tenant == signed.record.tenant)
        {
            let id = session.card.intent().filter(|it| *it == signed.record.intent);
            if let Some(id) = id {
                session.card = ThreeDsSessionCard::Intent { id, conversion: Some(signed.clone()) };
            }
        }
    }

    pub(super) fn find_session(
        &self,
        id: ThreeDsSessionId,
        now: Timestamp,
    ) -> Option<ThreeDsSessionRecord> {
        let is_requested =
            |it: &&ThreeDsSessionRecord| it.id == id && it.deletes_at.is_none_or(|it| it > now);
        self.threeds_sessions.iter().find(is_requested).cloned()
    }
}
