//! Idempotency records, in a list.

use scrip_core::{
    Timestamp,
    change::ChangeOutcome,
    idempotency::{
        CallRecordKey, ClaimOutcome, IdempotencyLookup, IdempotencyRecord, ResponseTokenData,
        StoredResponse, StoredTokenData,
    },
    operations::claim_idempotency_key::RESPONSE_RETENTION,
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::IdempotencyStore,
    types::{
        StoreError, StoreFuture,
        id::{TenantId, TokenId},
    },
};

use crate::memory::{
    MemoryStore,
    state::{MemoryIdempotencyRecord, MemoryStoreState},
};

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

    fn insert_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        let tenant = permit.tenant().id;
        self.attempt(move |it| {
            it.insert_idempotency_record(tenant, Some(record), &[])?;
            it.append_call_entries(&entries);
            Ok(())
        })
    }

    fn replace_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome> {
        let tenant = permit.tenant().id;
        self.attempt(move |it| {
            let (digest, created_at) = (record.digest, record.created_at);
            if !it.delete_call_record(tenant, CallRecordKey { digest, created_at }) {
                return Ok(ChangeOutcome::Stale);
            }
            it.insert_idempotency_record(tenant, Some(record), &[])?;
            it.append_call_entries(&entries);
            Ok(ChangeOutcome::Done)
        })
    }

    fn delete_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        key: CallRecordKey,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome> {
        let tenant = permit.tenant().id;
        self.with(move |it| {
            if !it.delete_call_record(tenant, key) {
                return ChangeOutcome::Stale;
            }
            it.append_call_entries(&entries);
            ChangeOutcome::Done
        })
    }

    fn delete_expired_responses(&self, cutoff: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let count_before = it.idempotency_records.len();
            it.idempotency_records.retain(|it| it.record.created_at > cutoff);
            count_before - it.idempotency_records.len()
        })
    }
}

impl MemoryStoreState {
    fn append_call_entries(&mut self, batch: &ReadLogBatch) {
        for entry in &batch.entries {
            let audit = batch.entry_audit(entry);
            self.append_audit_record(batch.tenant, &audit, &entry.entity, entry.outcome);
            if let Some(month) = batch.active_month(entry) {
                self.usage.count_active(batch.tenant, month, &entry.entity);
            }
        }
        self.insert_deliveries(batch.deliveries.clone());
    }

    /// Whether there was such a record.
    fn delete_call_record(&mut self, tenant: TenantId, key: CallRecordKey) -> bool {
        let CallRecordKey { digest, created_at } = key;
        let is_named = |it: &MemoryIdempotencyRecord| {
            it.tenant == tenant && it.record.digest == digest && it.record.created_at == created_at
        };
        let count_before = self.idempotency_records.len();
        self.idempotency_records.retain(|it| !is_named(it));
        self.idempotency_records.len() < count_before
    }

    /// Inserts a record, unless its key has one that has not expired. `tokens` are the tokens that
    /// the writes created or found.
    pub(super) fn insert_idempotency_record(
        &mut self,
        tenant: TenantId,
        record: Option<IdempotencyRecord>,
        tokens: &[TokenId],
    ) -> Result<(), StoreError> {
        let Some(record) = record else { return Ok(()) };
        let cutoff = record.created_at.minus(RESPONSE_RETENTION);
        let has_same_digest = |it: &MemoryIdempotencyRecord| it.record.digest == record.digest;
        self.idempotency_records.retain(|it| !has_same_digest(it) || it.record.created_at > cutoff);
        if self.idempotency_records.iter().any(has_same_digest) {
            return Err(StoreError::AlreadyCompleted);
        }
        let referenced_tokens =
            record.token_data.iter().map(|it| tokens.get(it.write_index).cloned());
        let referenced_tokens: Option<Vec<_>> = referenced_tokens.collect();
        let tokens =
            referenced_tokens.ok_or(StoreError::Corrupt("an idempotency record has no token"))?;
        self.idempotency_records.push(MemoryIdempotencyRecord { tenant, record, tokens });
        Ok(())
    }

    pub(super) fn find_stored_response(
        &self,
        lookup: &IdempotencyLookup,
    ) -> Option<StoredResponse> {
        let is_requested = |it: &&MemoryIdempotencyRecord| {
            let record = &it.record;
            it.tenant == lookup.tenant
                && record.digest == lookup.digest
                && record.created_at > lookup.since
        };
        let MemoryIdempotencyRecord { tenant, record, tokens } =
            self.idempotency_records.iter().find(is_requested)?;
        let join_token = |(data, id): (&ResponseTokenData, &TokenId)| {
            let row = self.tokens.get(self.find_live(*tenant, id, lookup.now)?)?;
            Some(StoredTokenData {
                write_index: data.write_index,
                token: id.clone(),
                containers: row.token.record.containers.clone(),
                sealed: data.sealed.clone(),
            })
        };
        let token_data = record.token_data.iter().zip(tokens).filter_map(join_token).collect();
        let IdempotencyRecord { digest, created_at, head, .. } = record.clone();
        Some(StoredResponse { digest, created_at, head, token_data })
    }
}
