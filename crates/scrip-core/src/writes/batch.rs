//! A batch of tokens: planned, written in one transaction, and planned again after conflicts.

use std::sync::Arc;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    disclosure::Deduplicate,
    idempotency::{ResponseRecorder, response::ResponseSealer},
    policy::{
        Caller,
        DeduplicationBehavior::{ReadExisting, UpdateExisting},
        Permit,
    },
    reveal::{Audience, reveal_existing},
    token::{StoredToken, WrittenToken, number_in_use_error},
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, TokenBatch, TokenWrite, WriteConflict, WriteOutcome,
        check_index_entries,
    },
    types::{Operation, Permission, id::TokenId},
    work_meter::contention_error,
    writes::{
        patch::{PatchCause, PatchContext, PatchedToken},
        pending_token::{CountedToken, PendingToken, unknown_intent_error},
    },
};

/// The maximum number of attempts after conflicts. In each attempt, one of the concurrent writers
/// of a token succeeds, so this many concurrent writers all succeed.
pub(crate) const ATTEMPTS_MAX: usize = 256;
/// The number of attempts of a large batch. A smaller batch gets more attempts.
const LARGE_ATTEMPTS_MAX: usize = 16;
/// The maximum number of rows of a batch. It is one transaction, and the writes of all tenants wait
/// for it.
const BATCH_ROWS_MAX: usize = 1000;
/// The maximum size of the webhook deliveries of a batch, for the same reason.
const BATCH_DELIVERY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The tokens of one request, before the write.
pub(crate) struct PendingBatch<'a> {
    caller: &'a Caller,
    operation: Operation,
    entries: Vec<PendingWrite>,
    now: Timestamp,
}

/// A token and how it will be written.
struct PendingWrite {
    pending: PendingToken,
    step: WriteStep,
}

/// The next attempt to write a token.
enum WriteStep {
    Insert(Deduplicate),
    /// Updates the existing token instead. `read_permit` limits what the response shows of it.
    Update {
        change: Box<PatchedToken>,
        read_permit: Permit,
    },
}

impl<'a> PendingBatch<'a> {
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        tokens: Vec<CountedToken>,
        now: Timestamp,
    ) -> Self {
        let mut identities = Vec::new();
        let to_pending_write = |CountedToken(pending): CountedToken| {
            let identity = pending.duplicate_identity();
            let is_repeat = identity.is_some() && identities.contains(&identity);
            identities.push(identity);
            PendingWrite { step: first_step(caller, &pending, is_repeat), pending }
        };
        let entries = tokens.into_iter().map(to_pending_write).collect();
        Self { caller, operation, entries, now }
    }

    /// Writes all tokens or none. The idempotency claim in `recorder` is locked until they are on
    /// disk.
    /// Errors: an id is taken, or no rule allows the caller to update the existing token.
    pub(crate) async fn write(
        mut self,
        vault: &Vault,
        recorder: Option<ResponseRecorder<[WrittenToken]>>,
    ) -> Result<Vec<WrittenToken>, Error> {
        for entry in &mut self.entries {
            entry.pending.load_key_and_seal_cvc(vault).await?;
        }
        let attempts = ATTEMPTS_MAX.checked_div(self.entries.len()).unwrap_or(1);
        for _ in 0..attempts.max(LARGE_ATTEMPTS_MAX) {
            let build_record =
                recorder.as_ref().map(|it| self.make_record_builder(vault, it)).transpose()?;
            let writes: Result<_, _> =
                self.entries.iter().map(|it| self.build_write(vault, it)).collect();
            let batch = TokenBatch { writes: writes?, build_record };
            check_batch_size(&batch.writes)?;
            let lookup = self.caller.permit_lookup(Permission::TokenCreate)?;
            match vault.store.write_tokens(lookup, batch).await? {
                BatchOutcome::Written(outcomes) => return self.finish(vault, outcomes).await,
                BatchOutcome::Rejected(conflicts) => {
                    for (index, conflict) in conflicts {
                        self.resolve_conflict(vault, index, conflict)?;
                    }
                    self.resolve_cvcs(vault).await?;
                }
            }
        }
        Err(contention_error())
    }

    fn build_write(&self, vault: &Vault, entry: &PendingWrite) -> Result<TokenWrite, Error> {
        let mut audit = AuditRecord::new(self.operation, self.caller, self.now);
        // In the transaction of the token: a proxied call can end at any time.
        audit.detail = self.caller.describe_sender();
        match &entry.step {
            WriteStep::Insert(deduplicate) => {
                entry.pending.write(*deduplicate, audit, vault.fill_random)
            }
            WriteStep::Update { change, .. } => {
                let permit = self.caller.permit(Permission::TokenUpdate, &change.token.record)?;
                let intent = entry.pending.intent.as_ref().map(|it| it.id);
                Ok(change.write(permit, intent, Deduplicate::No, audit, vault.fill_random))
            }
        }
    }

    fn resolve_conflict(
        &mut self,
        vault: &Vault,
        index: usize,
        conflict: WriteConflict,
    ) -> Result<(), Error> {
        let (earlier_entries, later_entries) =
            self.entries.split_at_mut_checked(index).unwrap_or_default();
        let Some(entry) = later_entries.first_mut() else { return Ok(()) };
        match conflict {
            WriteConflict::IdTaken => {
                // An alias that was generated earlier in the batch gets a new value if a later
                // token requests its id.
                let id = &entry.pending.token.record.id;
                let has_same_alias =
                    |it: &PendingWrite| it.inserts(id) && it.pending.has_alias_id();
                let earlier_index = earlier_entries
                    .iter()
                    .position(has_same_alias)
                    .filter(|_| !entry.pending.has_alias_id());
                return self.assign_new_id(vault, earlier_index.unwrap_or(index));
            }
            WriteConflict::IntentMissing => return Err(unknown_intent_error()),
            WriteConflict::UsedBySession => return Err(number_in_use_error()),
            WriteConflict::Stale => {
                if let WriteStep::Update { change, .. } = &entry.step {
                    self.caller.work().charge_repeated_body(change.body_work)?;
                }
                entry.step = first_step(self.caller, &entry.pending, false);
            }
            WriteConflict::Duplicate(existing) => {
                let is_in_batch = earlier_entries.iter().any(|it| it.touches(&existing.record.id));
                entry.step = match entry.pending.patch.as_ref().filter(|_| !is_in_batch) {
                    None => WriteStep::Insert(entry.pending.deduplicate),
                    Some(_) => {
                        update_step(vault, self.caller, self.now, &entry.pending, *existing)?
                    }
                };
            }
        }
        Ok(())
    }

    /// Assigns an id that no other token of the batch has. Otherwise the conflict would only move,
    /// and a batch of many short aliases would be retried without end.
    fn assign_new_id(&mut self, vault: &Vault, index: usize) -> Result<(), Error> {
        loop {
            let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
            entry.pending.assign_new_id(vault)?;
            let id = entry.pending.token.record.id.clone();
            let others =
                self.entries.iter().enumerate().filter(|(other_index, _)| *other_index != index);
            if !others.map(|(_, it)| it).any(|it| it.inserts(&id)) {
                return Ok(());
            }
        }
    }

    /// Makes the function that builds the stored response inside the transaction. All parts that do
    /// not depend on the outcome are built before the transaction, so that other writers in the
    /// queue wait less.
    fn make_record_builder(
        &self,
        vault: &Vault,
        recorder: &ResponseRecorder<[WrittenToken]>,
    ) -> Result<BuildIdempotencyRecord, Error> {
        let audience = Audience::StoredResponse { bins: &vault.bin_data };
        let prepare = |entry: &PendingWrite| {
            let written = match &entry.step {
                WriteStep::Insert(_) => WrittenToken {
                    token: entry.pending.stored_response_view(audience)?,
                    deduplicated: None,
                },
                WriteStep::Update { change, read_permit } => {
                    change.written_token(read_permit, Some(UpdateExisting), audience)?
                }
            };
            Ok((entry.pending.permit.recheck()?, written))
        };
        let prepared: Result<Vec<_>, Error> = self.entries.iter().map(prepare).collect();
        let (permits, mut written_tokens): (Vec<_>, Vec<_>) = prepared?.into_iter().unzip();
        let (render, digest) = (recorder.render.clone(), recorder.claim.digests);
        let (caller, now) = (self.caller.clone(), self.now);
        let bins = Arc::clone(&vault.bin_data);
        Ok(Box::new(move |outcomes| {
            for ((outcome, permit), written) in
                outcomes.iter().zip(&permits).zip(&mut written_tokens)
            {
                if let WriteOutcome::Existing(existing) = outcome {
                    *written = existing_token_result(
                        permit,
                        existing,
                        Audience::StoredResponse { bins: &bins },
                    )
                    .ok()?;
                }
            }
            let permission = Permission::TokenCreate;
            let sealer = ResponseSealer { caller: &caller, permission, digest, now };
            sealer.seal_record(&permits, &written_tokens, render(&written_tokens)).ok()
        }))
    }

    /// Loads the keys of CVCs that an update does not change. Another node may have sealed such a
    /// CVC, and the response may show it.
    async fn resolve_cvcs(&mut self, vault: &Vault) -> Result<(), Error> {
        for entry in &mut self.entries {
            if let WriteStep::Update { change, read_permit } = &mut entry.step {
                let (transform, now) = (read_permit.transform(), vault.clock.latest());
                change.token.resolve_cvc(&vault.epoch_keys, transform, now).await?;
            }
        }
        Ok(())
    }

    async fn finish(
        self,
        vault: &Vault,
        mut outcomes: Vec<WriteOutcome>,
    ) -> Result<Vec<WrittenToken>, Error> {
        let now = vault.clock.latest();
        for (entry, outcome) in self.entries.iter().zip(&mut outcomes) {
            if let WriteOutcome::Existing(existing) = outcome {
                existing
                    .resolve_cvc(&vault.epoch_keys, entry.pending.permit.transform(), now)
                    .await?;
            }
        }
        let audience = Audience::Caller { vault, now };
        let to_written_token = |(entry, outcome): (PendingWrite, WriteOutcome)| {
            let PendingWrite { pending, step } = entry;
            match (outcome, step) {
                (WriteOutcome::Existing(existing), _) => {
                    existing_token_result(&pending.permit, &existing, audience)
                }
                (
                    WriteOutcome::New | WriteOutcome::Updated,
                    WriteStep::Update { change, read_permit },
                ) => change.written_token(&read_permit, Some(UpdateExisting), audience),
                (WriteOutcome::New | WriteOutcome::Updated, WriteStep::Insert(_)) => {
                    Ok(WrittenToken { token: pending.into_view(audience)?, deduplicated: None })
                }
            }
        };
        self.entries.into_iter().zip(outcomes).map(to_written_token).collect()
    }
}

/// Rejects a batch that would keep other writers waiting.
fn check_batch_size(writes: &[TokenWrite]) -> Result<(), Error> {
    for write in writes {
        if let TokenWrite::Insert(insert) = write {
            check_index_entries(&insert.token.record, 0)?;
        }
    }
    let rows = writes.iter().map(TokenWrite::row_count).fold(0, usize::saturating_add);
    if writes.len() > 1 && rows > BATCH_ROWS_MAX {
        let rule = "of one request must need at most 1000 rows: 2 each, and their index entries \
            and webhook deliveries";
        return Err(FieldError::new("tokens", rule).into());
    }
    let bytes = writes.iter().map(TokenWrite::delivery_bytes).fold(0, usize::saturating_add);
    if writes.len() > 1 && bytes > BATCH_DELIVERY_BYTES_MAX {
        let rule = "of one request must have at most 4 MiB of webhook deliveries: their metadata \
            and search indexes, once for each webhook";
        return Err(FieldError::new("tokens", rule).into());
    }
    Ok(())
}

impl PendingWrite {
    /// Whether this entry inserts a token with this id.
    fn inserts(&self, id: &TokenId) -> bool {
        matches!(self.step, WriteStep::Insert(_)) && self.pending.token.record.id == *id
    }

    /// Whether this entry inserts or updates the token with this id.
    fn touches(&self, id: &TokenId) -> bool {
        match &self.step {
            WriteStep::Insert(_) => self.pending.token.record.id == *id,
            WriteStep::Update { change, .. } => change.token.record.id == *id,
        }
    }
}

/// The first attempt to write a token. A repeated token of the same request only reads the token
/// that the first one created or found. A caller without the right to update also reads the
/// existing token. Its rules do not depend on the id, so the right is known before the write;
/// access sessions are the exception.
fn first_step(caller: &Caller, pending: &PendingToken, is_repeat: bool) -> WriteStep {
    let containers = &pending.token.record.containers;
    let has_update_right = || caller.transform(Permission::TokenUpdate, containers).is_some();
    let may_update_existing = pending.patch.is_some()
        && !is_repeat
        && (caller.access_session().is_some() || has_update_right());
    WriteStep::Insert(match pending.deduplicate {
        Deduplicate::Yes(comparison) if may_update_existing => {
            Deduplicate::ReportExisting(comparison)
        }
        deduplicate @ (Deduplicate::Yes(_) | Deduplicate::No | Deduplicate::ReportExisting(_)) => {
            deduplicate
        }
    })
}

/// The attempt after an existing token was found. An update needs `token:update` on the existing
/// token; without this right, the existing token is read.
fn update_step(
    vault: &Vault,
    caller: &Caller,
    now: Timestamp,
    pending: &PendingToken,
    existing: StoredToken,
) -> Result<WriteStep, Error> {
    let update_transform = caller.transform(Permission::TokenUpdate, &existing.record);
    let (Some(update_transform), Some(patch)) = (update_transform, &pending.patch) else {
        return Ok(WriteStep::Insert(pending.deduplicate));
    };
    if existing.record.expressions.browser_chose_id {
        return Ok(WriteStep::Insert(pending.deduplicate));
    }
    // If the caller may not make the change, or the change is invalid, the existing token is read.
    // The response does not reveal which attribute differs.
    let intent_expires_at = pending.intent.as_ref().map(|it| it.expires_at);
    let is_typed = pending.is_typed();
    let cause = PatchCause::Deduplication { intent_expires_at, is_typed };
    let change = match (PatchContext { vault, caller, now, cause }).apply(existing, patch) {
        Ok(change) if !change.identity_changed => change,
        Ok(_) | Err(Error::Forbidden(_) | Error::Invalid(_)) => {
            return Ok(WriteStep::Insert(pending.deduplicate));
        }
        Err(error) => return Err(error),
    };
    let read_permit =
        change.read_permit(caller, update_transform.min(pending.permit.transform()))?;
    Ok(WriteStep::Update { change: Box::new(change), read_permit })
}

pub(crate) fn existing_token_result(
    permit: &Permit,
    existing: &StoredToken,
    audience: Audience<'_>,
) -> Result<WrittenToken, Error> {
    let token = reveal_existing(permit, existing, audience)?;
    Ok(WrittenToken { token, deduplicated: Some(ReadExisting) })
}
