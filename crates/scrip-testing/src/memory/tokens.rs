//! Tokens, in a list.

use std::cmp::Reverse;

use scrip_core::{
    disclosure::DuplicateLookup,
    id::{TenantId, TokenId},
    store::{Beside, Changed, Deduplicate, DeleteToken, StoreError, StoredToken, TokenRecord},
    time::Timestamp,
};

use super::{Row, State};

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
        (own_id, now): (Option<&TokenId>, Timestamp),
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

    pub(super) fn delete(&mut self, tenant: TenantId, delete: &DeleteToken) -> Changed {
        let at = self.live(tenant, &delete.id, delete.audit.at);
        let same = |it: &usize| {
            self.tokens.get(*it).is_some_and(|it| it.token.record.revision == delete.revision)
        };
        let Some(at) = at.filter(same) else { return Changed::Stale };
        self.remove(at);
        self.record(tenant, &delete.audit, delete.id.as_str(), "deleted");
        Changed::Done
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
