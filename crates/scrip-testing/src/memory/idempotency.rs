//! Remembered answers, in a list.

use scrip_core::{
    id::{TenantId, TokenId},
    idempotency::{
        ClaimOutcome, IdempotencyLookup, IdempotencyRecord, ResponseTokenData, StoredResponse,
        StoredTokenData,
    },
    operations::claim_idempotency_key::RESPONSE_RETENTION,
    store::{IdempotencyStore, StoreError, StoreFuture},
    time::Timestamp,
};

use crate::memory::{MemoryStore, MemoryStoreState};

/// An answer, and the token that each of its parts shows.
#[derive(Debug, Clone)]
pub(super) struct MemoryIdempotencyRecord {
    pub(super) tenant: TenantId,
    pub(super) record: IdempotencyRecord,
    pub(super) tokens: Vec<TokenId>,
}

impl IdempotencyStore for MemoryStore {
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome> {
        let Some(claim) = self.claims.try_claim(lookup.digest) else {
            return self.with(|_| ClaimOutcome::InFlight);
        };
        self.with(move |it| {
            it.find_stored_response(&lookup)
                .map_or(ClaimOutcome::Claimed(claim), ClaimOutcome::Completed)
        })
    }

    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.idempotency_records.len();
            it.idempotency_records.retain(|it| it.record.created_at > before);
            had - it.idempotency_records.len()
        })
    }
}

impl MemoryStoreState {
    /// `tokens` are what the writes made or found.
    pub(super) fn insert_idempotency_record(
        &mut self,
        tenant: TenantId,
        record: Option<IdempotencyRecord>,
        tokens: &[TokenId],
    ) -> Result<(), StoreError> {
        let Some(record) = record else { return Ok(()) };
        let forgotten = record.created_at.minus(RESPONSE_RETENTION);
        let same = |it: &MemoryIdempotencyRecord| it.record.digest == record.digest;
        self.idempotency_records.retain(|it| !same(it) || it.record.created_at > forgotten);
        if self.idempotency_records.iter().any(same) {
            return Err(StoreError::AlreadyCompleted);
        }
        let shown = record.token_data.iter().map(|it| tokens.get(it.write_index).cloned());
        let shown: Option<Vec<_>> = shown.collect();
        let tokens = shown.ok_or(StoreError::Corrupt("an answer shows no token"))?;
        self.idempotency_records.push(MemoryIdempotencyRecord { tenant, record, tokens });
        Ok(())
    }

    pub(super) fn find_stored_response(
        &self,
        lookup: &IdempotencyLookup,
    ) -> Option<StoredResponse> {
        let is = |it: &&MemoryIdempotencyRecord| {
            let record = &it.record;
            it.tenant == lookup.tenant
                && record.digest == lookup.digest
                && record.created_at > lookup.since
        };
        let MemoryIdempotencyRecord { tenant, record, tokens } =
            self.idempotency_records.iter().find(is)?;
        let part = |(part, id): (&ResponseTokenData, &TokenId)| {
            let row = self.tokens.get(self.find_live(*tenant, id, lookup.now)?)?;
            Some(StoredTokenData {
                write_index: part.write_index,
                token: id.clone(),
                containers: row.token.record.containers.clone(),
                sealed: part.sealed.clone(),
            })
        };
        let parts = record.token_data.iter().zip(tokens).filter_map(part).collect();
        let IdempotencyRecord { digest, created_at, head, .. } = record.clone();
        Some(StoredResponse { digest, created_at, head, token_data: parts })
    }
}
