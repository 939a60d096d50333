//! Tokens, in a list.

use std::cmp::Reverse;

use scrip_core::{
    id::{TenantId, TokenId},
    policy::{Inquiry, Permit},
    store::{Beside, Changed, StoreError, StoreFuture, TokenStore},
    time::Timestamp,
    token::{
        Batched, Deduplicate, DeleteToken, StoredToken, TokenBatch, TokenRecord,
        disclosure::DuplicateLookup,
    },
};

use crate::memory::{MemoryStore, Row, State};

impl TokenStore for MemoryStore {
    fn write_tokens(&self, inquiry: Inquiry, batch: TokenBatch) -> StoreFuture<'_, Batched> {
        self.attempt_if(
            move |it| it.write_tokens(inquiry.tenant().id, batch),
            |it| matches!(it, Batched::Written(_)),
        )
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        self.with(move |it| {
            let at = it.live(inquiry.tenant().id, id, now)?;
            it.tokens.get(at).map(|it| it.token.clone())
        })
    }

    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        self.with(move |it| {
            let find = |id| it.tokens.get(it.live(inquiry.tenant().id, id, now)?);
            ids.iter().map(|id| find(id).map(|it| it.token.clone())).collect()
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        self.with(move |state| {
            let tenant = permit.tenant().id;
            let at = state.live(tenant, &delete.id, delete.audit.at);
            let same = |it: &usize| {
                state.tokens.get(*it).is_some_and(|it| it.token.record.revision == delete.revision)
            };
            let Some(at) = at.filter(same) else { return Changed::Stale };
            state.remove(at);
            state.record(tenant, &delete.audit, delete.id.as_str(), "deleted");
            Changed::Done
        })
    }
}

impl State {
    pub(super) fn live(&self, tenant: TenantId, id: &TokenId, now: Timestamp) -> Option<usize> {
        let is = |it: &Row| it.tenant == tenant && it.token.record.id == *id;
        self.tokens.iter().position(|it| is(it) && it.token.record.is_live(now))
    }

    pub(super) fn duplicate(
        &self,
        tenant: TenantId,
        token: &TokenRecord,
        deduplicate: Deduplicate,
        own_id: Option<&TokenId>,
        now: Timestamp,
    ) -> Option<StoredToken> {
        let lookup = DuplicateLookup::of(token, deduplicate)?;
        let matches = |it: &&Row| {
            let record = &it.token.record;
            it.tenant == tenant
                && record.fingerprint == token.fingerprint
                && lookup.matches(record)
                && Some(&record.id) != own_id
                && record.is_live(now)
        };
        let preference = |it: &&Row| {
            let ends = it.token.record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
            (Reverse(ends), it.age())
        };
        let found = self.tokens.iter().filter(matches).min_by_key(preference);
        found.map(|it| it.token.clone())
    }

    pub(super) fn remove(&mut self, at: usize) {
        let row = self.tokens.remove(at);
        for answer in self.answers.iter_mut().filter(|it| it.tenant == row.tenant) {
            let gone = |it: &TokenId| *it == row.token.record.id;
            let mut tokens = answer.tokens.iter();
            answer.record.parts.retain(|_| !tokens.next().is_some_and(gone));
            answer.tokens.retain(|it| !gone(it));
        }
    }

    /// A request that began before its tenant was deleted must not write after.
    pub(super) fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        if self.directory.tenants.iter().any(|it| it.tenant.record.id == tenant) {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    pub(super) fn beside(
        &mut self,
        tenant: TenantId,
        written: Beside,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.record(tenant, &written.audit, &written.entity, outcome);
        self.remember(tenant, written.answer, &[])
    }
}
