//! Responses that are stored for repeated requests with the same idempotency key.

use scrip_core::{
    Timestamp,
    audit::LogKind,
    change::ChangeOutcome,
    idempotency::{CallRecordKey, ClaimOutcome, IdempotencyLookup, IdempotencyRecord},
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::IdempotencyStore,
    types::{StoreError, StoreFuture, id::TokenId, time::Month},
};

use crate::{
    shared::idempotency::insert_idempotency_record,
    sql::{BatchDelete, Execute, WriteTransaction, parameters},
};

/// The record of one call. A later call with the same key has another creation time.
const DELETE_CALL_RECORD: &str = "
-- delete_call_record
DELETE FROM idempotency_records WHERE tenant = $1 AND digest = $2 AND created_at = $3";

/// SQLite stores records in order of creation, so the oldest records are at the start of the table.
const DELETE_EXPIRED_RESPONSES: BatchDelete = BatchDelete {
    sqlite: "
-- delete_expired_responses
DELETE FROM idempotency_records WHERE created_at <= $1 AND seq IN (
    SELECT seq FROM idempotency_records ORDER BY seq LIMIT $2
)",
    postgres: "
-- delete_expired_responses
DELETE FROM idempotency_records WHERE (tenant, digest) IN (
    SELECT tenant, digest FROM idempotency_records WHERE created_at <= $1 ORDER BY created_at
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 256,
    postgres_rows_max: 256,
};

for_both_engines! {
impl IdempotencyStore {
    fn claim_idempotency_key(&self, lookup: IdempotencyLookup) -> StoreFuture<'_, ClaimOutcome> {
        Box::pin(async move {
            let Some(claim) = self.claims.try_claim(lookup.digest) else { return Ok(ClaimOutcome::InFlight) };
            let stored_response = self.find_stored_response(lookup).await?;
            Ok(stored_response.map_or(ClaimOutcome::Claimed(claim), ClaimOutcome::Completed))
        })
    }

    fn insert_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let active_tokens = find_active_tokens(&entries);
            self.write(tenant, async move |it| {
                it.check_tenant(tenant).await?;
                insert_idempotency_record(it, tenant, &record, &[]).await?;
                append_call_entries(it, &entries).await
            })
            .await?;
            self.read_log.record_activity(tenant, active_tokens);
            Ok(())
        })
    }

    /// Deletes and inserts, because the role of a PostgreSQL server may not update these rows.
    fn replace_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let key = parameters![tenant, &record.digest, record.created_at];
            if it.execute(DELETE_CALL_RECORD, &key).await? == 0 {
                return Ok(ChangeOutcome::Stale);
            }
            insert_idempotency_record(it, tenant, &record, &[]).await?;
            append_call_entries(it, &entries).await?;
            Ok(ChangeOutcome::Done)
        }))
    }

    fn delete_call_record<'a>(
        &'a self,
        permit: &'a LookupPermit,
        key: CallRecordKey,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ChangeOutcome> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            let key = parameters![tenant, &key.digest, key.created_at];
            if it.execute(DELETE_CALL_RECORD, &key).await? == 0 {
                return Ok(ChangeOutcome::Stale);
            }
            append_call_entries(it, &entries).await?;
            Ok(ChangeOutcome::Done)
        }))
    }

    fn delete_expired_responses(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_batch(LogKind::Audit, &DELETE_EXPIRED_RESPONSES, before))
    }
}
}

/// Writes the entries of a call to the audit log, and its deliveries, in the transaction of its record.
async fn append_call_entries<T: WriteTransaction>(
    transaction: &mut T,
    batch: &ReadLogBatch,
) -> Result<(), StoreError> {
    for entry in &batch.entries {
        let audit = batch.entry_audit(entry);
        transaction.append_audit_record(batch.tenant, &audit, &entry.entity, entry.outcome).await?;
    }
    transaction.insert_deliveries(&batch.deliveries).await
}

/// The tokens that the call makes active in its month.
fn find_active_tokens(batch: &ReadLogBatch) -> Vec<(Month, TokenId)> {
    let entries = batch.entries.iter();
    let active_tokens =
        entries.filter_map(|it| Some((batch.active_month(it)?, TokenId::parse(&it.entity).ok()?)));
    active_tokens.collect()
}
