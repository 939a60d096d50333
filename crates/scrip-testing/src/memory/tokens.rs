//! Tokens, in a list.

use std::cmp::Reverse;

use scrip_core::{
    Timestamp,
    change::{ChangeOutcome, CommitExtras},
    disclosure::{Deduplicate, DuplicateLookup},
    policy::{LookupPermit, Permit},
    store::TokenStore,
    token::{StoredToken, TokenRecord},
    token_batch::{BatchOutcome, DeleteToken, TokenBatch},
    types::{
        StoreError, StoreFuture,
        id::{TenantId, TokenId},
    },
};

use crate::memory::{
    MemoryStore,
    state::{MemoryStoreState, TokenRow},
};

impl TokenStore for MemoryStore {
    fn write_tokens(
        &self,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'_, BatchOutcome> {
        self.attempt_if(
            move |it| it.write_tokens(lookup.tenant().id, batch),
            |it| matches!(it, BatchOutcome::Written(_)),
        )
    }

    fn find_token<'a>(
        &'a self,
        lookup: LookupPermit,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        self.with(move |it| {
            let index = it.find_live(lookup.tenant().id, id, now)?;
            it.tokens.get(index).map(|it| it.token.clone())
        })
    }

    fn find_tokens<'a>(
        &'a self,
        lookup: LookupPermit,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<Option<StoredToken>>> {
        self.with(move |it| {
            let find = |id| it.tokens.get(it.find_live(lookup.tenant().id, id, now)?);
            ids.iter().map(|id| find(id).map(|it| it.token.clone())).collect()
        })
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |state| {
            let tenant = permit.tenant().id;
            let index = state.find_live(tenant, &delete.id, delete.audit.at);
            let has_same_revision = |it: &usize| {
                state.tokens.get(*it).is_some_and(|it| it.token.record.revision == delete.revision)
            };
            let Some(index) = index.filter(has_same_revision) else { return ChangeOutcome::Stale };
            state.remove_token(index);
            state.append_audit_record(tenant, &delete.audit, delete.id.as_str(), "deleted");
            state.insert_deliveries(delete.deliveries);
            ChangeOutcome::Done
        })
    }
}

impl MemoryStoreState {
    pub(super) fn find_live(
        &self,
        tenant: TenantId,
        id: &TokenId,
        now: Timestamp,
    ) -> Option<usize> {
        let has_id = |it: &TokenRow| it.tenant == tenant && it.token.record.id == *id;
        self.tokens.iter().position(|it| has_id(it) && it.token.record.is_live(now))
    }

    pub(super) fn find_duplicate(
        &self,
        tenant: TenantId,
        token: &TokenRecord,
        deduplicate: Deduplicate,
        excluded_id: Option<&TokenId>,
        now: Timestamp,
    ) -> Option<StoredToken> {
        let lookup = DuplicateLookup::for_write(token, deduplicate)?;
        let matches = |it: &&TokenRow| {
            let record = &it.token.record;
            it.tenant == tenant
                && record.fingerprint == token.fingerprint
                && lookup.matches(record)
                && Some(&record.id) != excluded_id
                && record.is_live(now)
        };
        let preference = |it: &&TokenRow| {
            let expiry_ms = it.token.record.expires_at.map_or(i64::MAX, |it| it.unix_ms);
            (Reverse(expiry_ms), it.creation_order())
        };
        let duplicate = self.tokens.iter().filter(matches).min_by_key(preference);
        duplicate.map(|it| it.token.clone())
    }

    pub(super) fn remove_token(&mut self, index: usize) {
        let row = self.tokens.remove(index);
        for response in self.idempotency_records.iter_mut().filter(|it| it.tenant == row.tenant) {
            let is_removed = |it: &TokenId| *it == row.token.record.id;
            let mut tokens = response.tokens.iter();
            response.record.token_data.retain(|_| !tokens.next().is_some_and(is_removed));
            response.tokens.retain(|it| !is_removed(it));
        }
    }

    /// A request that started before its tenant was deleted must not write afterwards.
    pub(super) fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        if self.directory.tenants.iter().any(|it| it.tenant.record.id == tenant) {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted".into()))
    }

    pub(super) fn insert_commit_extras(
        &mut self,
        tenant: TenantId,
        extras: CommitExtras,
        outcome: &'static str,
    ) -> Result<(), StoreError> {
        self.append_audit_record(tenant, &extras.audit, &extras.entity, outcome);
        self.insert_deliveries(extras.deliveries);
        self.insert_idempotency_record(tenant, extras.idempotency, &[])
    }
}
