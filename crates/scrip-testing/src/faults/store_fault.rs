//! Stores with one fault, for tests that must detect it.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    change::CommitExtras,
    idempotency::IdempotencyRecord,
    keys::{RotatedTable, RowKey, SealedRows},
    policy::{CallerRequirement, LookupPermit, PolicyPermit},
    read_log::ReadLogBatch,
    store::{Store, VersionPage},
    token_batch::{BatchOutcome, TokenBatch, TokenWrite, WriteOutcome},
    types::{StoreFuture, id::TenantId},
};
use tokio::time::sleep;

use crate::faults::intercepted_store::Interceptor;

/// Long enough for a kill to happen while every client waits.
const DELAY: Duration = Duration::from_millis(40);

/// Longer than the time to kill a server after it returned data.
const UNRECORDED_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// Waits between the commit and the response. This is not a fault: a client cannot distinguish
    /// it from a lost request.
    LateResponse,
    /// Responds before the commit.
    EarlyResponse,
    /// Commits the effect without the idempotency record, and waits like `LateResponse`.
    LostIdempotencyRecord,
    /// Returns data before the read is recorded.
    UnrecordedRead,
    /// Sends proxied calls without a record of the intention.
    LostCallRecord,
    /// Commits new tokens without the deliveries of their events, and writes these afterwards.
    LateDeliveries,
    /// Hides rows from rotations of sealing keys, so that a key is destroyed while rows need it.
    EarlyKeyDestruction,
}

impl StoreFault {
    const NAMES: [(Self, &str); 7] = [
        (Self::LateResponse, "late_response"),
        (Self::EarlyResponse, "early_response"),
        (Self::LostIdempotencyRecord, "lost_idempotency_record"),
        (Self::UnrecordedRead, "unrecorded_read"),
        (Self::LostCallRecord, "lost_call_record"),
        (Self::LateDeliveries, "late_deliveries"),
        (Self::EarlyKeyDestruction, "early_key_destruction"),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(it, _)| *it == self).expect("a name for each fault").1
    }

    pub fn parse(name: &str) -> Self {
        Self::NAMES.into_iter().find(|(_, it)| *it == name).expect("a known fault").0
    }
}

/// The fault is in token writes, in read log records or in records of proxied calls. Batches with updates have no fault.
impl Interceptor for StoreFault {
    fn write_tokens<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        lookup: LookupPermit,
        mut batch: TokenBatch,
    ) -> StoreFuture<'a, BatchOutcome> {
        let has_only_inserts = batch.writes.iter().all(|it| matches!(it, TokenWrite::Insert(_)));
        let other_faults = [Self::UnrecordedRead, Self::LostCallRecord, Self::EarlyKeyDestruction];
        let has_other_fault = other_faults.contains(self);
        if !has_only_inserts || has_other_fault {
            return engine.write_tokens(lookup, batch);
        }
        let engine = Arc::clone(engine);
        match self {
            Self::LateResponse
            | Self::UnrecordedRead
            | Self::LostCallRecord
            | Self::EarlyKeyDestruction => (),
            Self::LostIdempotencyRecord => batch.build_record = None,
            Self::LateDeliveries => {
                let late_deliveries = take_deliveries(&mut batch.writes);
                return Box::pin(async move {
                    let outcome = engine.write_tokens(lookup, batch).await?;
                    drop(tokio::spawn(async move {
                        sleep(DELAY).await;
                        for (permit, extras) in late_deliveries {
                            drop(engine.insert_deliveries(permit, extras).await);
                        }
                    }));
                    Ok(outcome)
                });
            }
            Self::EarlyResponse => {
                let claimed_outcomes = batch.writes.iter().map(|_| WriteOutcome::New).collect();
                return Box::pin(async move {
                    drop(tokio::spawn(async move {
                        sleep(DELAY).await;
                        drop(engine.write_tokens(lookup, batch).await);
                    }));
                    Ok(BatchOutcome::Written(claimed_outcomes))
                });
            }
        }
        Box::pin(async move {
            let outcome = engine.write_tokens(lookup, batch).await;
            sleep(DELAY).await;
            outcome
        })
    }

    fn insert_call_record<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        permit: &'a LookupPermit,
        record: IdempotencyRecord,
        entries: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        if *self == Self::LostCallRecord {
            return engine.append_read_log(entries);
        }
        engine.insert_call_record(permit, record, entries)
    }

    fn list_sealed_rows<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'a, SealedRows> {
        if *self == Self::EarlyKeyDestruction {
            return Box::pin(std::future::ready(Ok(SealedRows::default())));
        }
        engine.list_sealed_rows(tenant, table, after, rows_max)
    }

    fn count_key_versions<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'a, VersionPage> {
        if *self == Self::EarlyKeyDestruction {
            return Box::pin(std::future::ready(Ok(VersionPage::default())));
        }
        engine.count_key_versions(tenant, table, after, rows_max)
    }

    fn append_read_log<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        batch: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        if *self != Self::UnrecordedRead {
            return engine.append_read_log(batch);
        }
        let engine = Arc::clone(engine);
        Box::pin(async move {
            drop(tokio::spawn(async move {
                sleep(UNRECORDED_DELAY).await;
                drop(engine.append_read_log(batch).await);
            }));
            Ok(())
        })
    }
}

/// Removes the deliveries from inserts of tokens, to write them in a later transaction.
fn take_deliveries(writes: &mut [TokenWrite]) -> Vec<(PolicyPermit, CommitExtras)> {
    let mut late_deliveries = Vec::new();
    for write in writes {
        let TokenWrite::Insert(insert) = write else { continue };
        let extras = CommitExtras {
            audit: insert.audit.clone(),
            entity: insert.token.record.id.as_str().to_owned(),
            idempotency: None,
            deliveries: std::mem::take(&mut insert.events.written),
        };
        let permit = insert.permit.caller().permit_policy(CallerRequirement::AnyKey);
        late_deliveries.push((permit.expect("any key is allowed"), extras));
    }
    late_deliveries
}
