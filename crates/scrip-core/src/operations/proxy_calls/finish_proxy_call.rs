//! Records the outcome of a call, and stores the answer for repetitions.

use crate::{
    Error, Vault,
    change::ChangeOutcome,
    idempotency::{
        CallDelivery, CallRecordKey, CallResponse, IdempotencyRecord, proxy_call::CallState,
    },
    operations::proxy_calls::start_proxy_call::{StartedCall, StartedRecord},
    read_log::ReadLogBatch,
    types::StoreError,
};

/// The outcome of a call.
#[derive(Debug)]
pub enum CallOutcome {
    /// No byte left. The call leaves no record of its idempotency key, so it can be repeated.
    NotSent,
    /// The call may have arrived; there is no answer.
    MaybeSent,
    /// The destination answered. Without a response, the answer is too large to be stored.
    Answered { status: u16, response: Option<CallResponse> },
}

impl CallOutcome {
    fn delivery(&self) -> CallDelivery {
        match self {
            Self::NotSent => CallDelivery::NotSent,
            Self::MaybeSent => CallDelivery::MaybeSent,
            Self::Answered { .. } => CallDelivery::Answered,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            Self::NotSent | Self::MaybeSent => None,
        }
    }
}

/// The change of the record of an idempotency key.
enum RecordChange {
    Keep,
    Delete(CallRecordKey),
    Replace(IdempotencyRecord),
}

/// Records the outcome. Without an idempotency key, the entry is queued and nothing is awaited.
///
/// Errors: the record of the idempotency key cannot be changed: it says that the call may have been
/// sent, and a repetition is rejected. The caller still gets the answer.
pub async fn finish_proxy_call(
    vault: &Vault,
    started: StartedCall,
    outcome: CallOutcome,
) -> Result<(), Error> {
    let (now, delivery, status) = (vault.clock.now(), outcome.delivery(), outcome.status());
    // One batch: if it is queued after a write of unknown outcome, its event has the same id and is
    // stored once.
    let batch = started.outcome_batch(delivery.as_str(), status, now, vault.fill_random);
    let Some(record) = &started.record else {
        vault.outcome_queue.push(batch);
        return Ok(());
    };
    let entry = || batch.clone();
    let change = match plan_change(vault, record, outcome) {
        Ok(RecordChange::Keep) => {
            vault.outcome_queue.push(entry());
            return Ok(());
        }
        Ok(change) => change,
        Err(error) => {
            vault.outcome_queue.push(entry());
            return Err(error);
        }
    };
    match write_change(vault, record, change, entry()).await {
        Ok(ChangeOutcome::Done) => Ok(()),
        // The record has expired, or the tenant was deleted.
        Ok(ChangeOutcome::Stale) => {
            vault.outcome_queue.push(entry());
            Ok(())
        }
        Err(error) => {
            vault.outcome_queue.push(entry());
            Err(error.into())
        }
    }
}

/// Records that the outcome of a call is unknown: its client disconnected before the answer. Waits
/// for nothing, so that a destructor can call it.
pub fn abandon_proxy_call(vault: &Vault, started: &StartedCall) {
    let delivery = CallDelivery::MaybeSent;
    let (now, fill_random) = (vault.clock.now(), vault.fill_random);
    vault.outcome_queue.push(started.outcome_batch(delivery.as_str(), None, now, fill_random));
}

fn plan_change(
    vault: &Vault,
    record: &StartedRecord,
    outcome: CallOutcome,
) -> Result<RecordChange, Error> {
    let state = match outcome {
        CallOutcome::MaybeSent => return Ok(RecordChange::Keep),
        CallOutcome::NotSent => {
            let (digest, created_at) = (record.claim.digests.key, record.created_at);
            return Ok(RecordChange::Delete(CallRecordKey { digest, created_at }));
        }
        CallOutcome::Answered { response: Some(response), .. }
            if response.body.len() <= CallResponse::BODY_BYTES_MAX =>
        {
            CallState::Response(response)
        }
        CallOutcome::Answered { status, .. } => CallState::Answered { status: Some(status) },
    };
    let latest = vault.clock.latest();
    Ok(RecordChange::Replace(record.sealer().seal_record(&vault.epoch_keys, &state, latest)?))
}

async fn write_change(
    vault: &Vault,
    record: &StartedRecord,
    change: RecordChange,
    entry: ReadLogBatch,
) -> Result<ChangeOutcome, StoreError> {
    match change {
        RecordChange::Keep => Ok(ChangeOutcome::Stale),
        RecordChange::Delete(key) => {
            vault.store.delete_call_record(&record.permit, key, entry).await
        }
        RecordChange::Replace(sealed) => {
            vault.store.replace_call_record(&record.permit, sealed, entry).await
        }
    }
}
