//! Tokens that are made together: planned, written in one transaction, and planned again around
//! whatever stood in the way.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::TokenId,
    idempotency::{ResponseRecorder, response::ResponseSealer},
    policy::{
        Caller,
        DeduplicationBehavior::{ReadExisting, UpdateExisting},
        Permission, Permit,
    },
    threeds::number_in_use_error,
    token::{
        BatchOutcome, BuildIdempotencyRecord, Deduplicate, StoredToken, TokenBatch, TokenWrite,
        WriteConflict, WriteOutcome, WrittenToken,
        reveal::{Audience, reveal_existing},
        write::{
            conversion,
            patch::{PatchCause, PatchContext, PatchedToken},
            pending_token::PendingToken,
        },
    },
};

/// Writers of one token take turns, and each turn one of them succeeds: this many at once do.
pub(crate) const ATTEMPTS_MAX: usize = 256;
/// A large batch is not tried as often as a single token is.
const LARGE_ATTEMPTS_MAX: usize = 16;

pub(crate) struct PendingBatch<'a> {
    caller: &'a Caller,
    operation: Operation,
    entries: Vec<PendingWrite>,
    now: Timestamp,
}

/// A token and how it is going to be written.
struct PendingWrite {
    pending: PendingToken,
    step: WriteStep,
}

enum WriteStep {
    Insert(Deduplicate),
    /// The one that is there is updated instead. `shown_by` is what the answer may show of it.
    Update {
        change: Box<PatchedToken>,
        read_permit: Permit,
    },
}

impl<'a> PendingBatch<'a> {
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        tokens: Vec<PendingToken>,
        now: Timestamp,
    ) -> Self {
        let mut identities = Vec::new();
        let entry = |draft: PendingToken| {
            let identity = draft.duplicate_identity();
            let again = identity.is_some() && identities.contains(&identity);
            identities.push(identity);
            PendingWrite { step: first_step(caller, &draft, again), pending: draft }
        };
        Self { caller, operation, entries: tokens.into_iter().map(entry).collect(), now }
    }

    /// All of them, or none. The claim in `remember` is held until they are on disk.
    ///
    /// # Errors
    /// An id is taken, or no rule lets the caller update what is there already.
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
            let render =
                recorder.as_ref().map(|it| self.make_record_builder(vault, it)).transpose()?;
            let writes: Result<_, _> = self.entries.iter().map(|it| self.build_write(it)).collect();
            let batch = TokenBatch { writes: writes?, build_record: render };
            let lookup = self.caller.permit_lookup(Permission::TokenCreate)?;
            match vault.store.write_tokens(lookup, batch).await? {
                BatchOutcome::Written(outcomes) => return self.finish(vault, outcomes).await,
                BatchOutcome::Rejected(obstacles) => {
                    for (at, obstacle) in obstacles {
                        self.resolve_conflict(vault, at, obstacle)?;
                    }
                    self.resolve_cvcs(vault).await?;
                }
            }
        }
        Err(contention_error())
    }

    fn build_write(&self, entry: &PendingWrite) -> Result<TokenWrite, Error> {
        let audit = AuditRecord::new(self.operation, self.caller, self.now);
        match &entry.step {
            WriteStep::Insert(deduplicate) => entry.pending.write(*deduplicate, audit),
            WriteStep::Update { change, .. } => {
                let permit = self.caller.permit(Permission::TokenUpdate, &change.token.record)?;
                let intent = entry.pending.intent.as_ref().map(|it| it.id);
                Ok(change.write(permit, intent, Deduplicate::No, audit))
            }
        }
    }

    fn resolve_conflict(
        &mut self,
        vault: &Vault,
        at: usize,
        conflict: WriteConflict,
    ) -> Result<(), Error> {
        let (before, rest) = self.entries.split_at_mut_checked(at).unwrap_or_default();
        let Some(entry) = rest.first_mut() else { return Ok(()) };
        match conflict {
            WriteConflict::IdTaken => {
                // An alias that was drawn before makes way for an id that was asked for.
                let id = &entry.pending.token.record.id;
                let drawn = |it: &PendingWrite| it.inserts(id) && it.pending.has_alias_id();
                let earlier =
                    before.iter().position(drawn).filter(|_| !entry.pending.has_alias_id());
                return self.assign_new_id(vault, earlier.unwrap_or(at));
            }
            WriteConflict::IntentMissing => return Err(conversion::unknown_intent_error()),
            WriteConflict::UsedBySession => return Err(number_in_use_error()),
            WriteConflict::Stale => entry.step = first_step(self.caller, &entry.pending, false),
            WriteConflict::Duplicate(found) => {
                let ours = before.iter().any(|it| it.touches(&found.record.id));
                entry.step = match entry.pending.patch.as_ref().filter(|_| !ours) {
                    None => WriteStep::Insert(Deduplicate::Yes),
                    Some(_) => update_step(vault, self.caller, self.now, &entry.pending, *found)?,
                };
            }
        }
        Ok(())
    }

    /// Never to the id of another one of the batch: that would only move the obstacle, and a batch
    /// full of short aliases would be tried for ever.
    fn assign_new_id(&mut self, vault: &Vault, at: usize) -> Result<(), Error> {
        loop {
            let Some(entry) = self.entries.get_mut(at) else { return Ok(()) };
            entry.pending.assign_new_id(vault)?;
            let id = entry.pending.token.record.id.clone();
            let others = self.entries.iter().enumerate().filter(|(other, _)| *other != at);
            if !others.map(|(_, it)| it).any(|it| it.inserts(&id)) {
                return Ok(());
            }
        }
    }

    /// The answer to remember. What is known beforehand is made beforehand: whoever waits for the
    /// writer should not wait for this.
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
                WriteStep::Update { change, read_permit: shown_by } => {
                    change.written_token(shown_by, Some(UpdateExisting), audience)?
                }
            };
            Ok((entry.pending.permit.recheck()?, written))
        };
        let prepared: Result<Vec<_>, Error> = self.entries.iter().map(prepare).collect();
        let (permits, mut written): (Vec<_>, Vec<_>) = prepared?.into_iter().unzip();
        let (render, digest) = (recorder.render.clone(), recorder.claim.digests);
        let (caller, now) = (self.caller.clone(), self.now);
        let bins = Arc::clone(&vault.bin_data);
        Ok(Box::new(move |outcomes| {
            for ((outcome, permit), written) in outcomes.iter().zip(&permits).zip(&mut written) {
                if let WriteOutcome::Existing(found) = outcome {
                    *written = existing_token_result(
                        permit,
                        found,
                        Audience::StoredResponse { bins: &bins },
                    )
                    .ok()?;
                }
            }
            let permission = Permission::TokenCreate;
            let answering = ResponseSealer { caller: &caller, permission, digest, now };
            answering.seal_record(&permits, &written, render(&written)).ok()
        }))
    }

    /// What an update leaves as it is may be a code that another node sealed, and is shown.
    async fn resolve_cvcs(&mut self, vault: &Vault) -> Result<(), Error> {
        for entry in &mut self.entries {
            if let WriteStep::Update { change, read_permit: shown_by } = &mut entry.step {
                let (transform, now) = (shown_by.transform(), vault.clock.latest());
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
            if let WriteOutcome::Existing(found) = outcome {
                found.resolve_cvc(&vault.epoch_keys, entry.pending.permit.transform(), now).await?;
            }
        }
        let audience = Audience::Caller { vault, now };
        let written = |(entry, outcome): (PendingWrite, WriteOutcome)| {
            let PendingWrite { pending: draft, step } = entry;
            match (outcome, step) {
                (WriteOutcome::Existing(found), _) => {
                    existing_token_result(&draft.permit, &found, audience)
                }
                (
                    WriteOutcome::New | WriteOutcome::Updated,
                    WriteStep::Update { change, read_permit: shown_by },
                ) => change.written_token(&shown_by, Some(UpdateExisting), audience),
                (WriteOutcome::New | WriteOutcome::Updated, WriteStep::Insert(_)) => {
                    Ok(WrittenToken { token: draft.into_view(audience)?, deduplicated: None })
                }
            }
        };
        self.entries.into_iter().zip(outcomes).map(written).collect()
    }
}

impl PendingWrite {
    fn inserts(&self, id: &TokenId) -> bool {
        matches!(self.step, WriteStep::Insert(_)) && self.pending.token.record.id == *id
    }

    fn touches(&self, id: &TokenId) -> bool {
        match &self.step {
            WriteStep::Insert(_) => self.pending.token.record.id == *id,
            WriteStep::Update { change, .. } => change.token.record.id == *id,
        }
    }
}

/// A second one of the same request only reads what the first one made or found. Whoever may not
/// update what is there need not be told of it: only the rules of sessions are about ids.
fn first_step(caller: &Caller, pending: &PendingToken, is_repeat: bool) -> WriteStep {
    let containers = &pending.token.record.containers;
    let may_update = || caller.transform(Permission::TokenUpdate, containers).is_some();
    let updates = pending.patch.is_some()
        && !is_repeat
        && (caller.access_session().is_some() || may_update());
    WriteStep::Insert(match pending.deduplicate {
        Deduplicate::Yes if updates => Deduplicate::ReportExisting,
        wanted @ (Deduplicate::Yes | Deduplicate::No | Deduplicate::ReportExisting) => wanted,
    })
}

/// Updating needs the permission to update, there; without it the existing token is read.
fn update_step(
    vault: &Vault,
    caller: &Caller,
    now: Timestamp,
    pending: &PendingToken,
    found: StoredToken,
) -> Result<WriteStep, Error> {
    let may = caller.transform(Permission::TokenUpdate, &found.record);
    let (Some(may), Some(patch)) = (may, &pending.patch) else {
        return Ok(WriteStep::Insert(Deduplicate::Yes));
    };
    if found.record.expressions.browser_chose_id {
        return Ok(WriteStep::Insert(Deduplicate::Yes));
    }
    // What the caller would change is not its to change, or cannot be: it is read, and nobody is told
    // what it is that differs.
    let intent_ends = pending.intent.as_ref().map(|it| it.expires_at);
    let cause = PatchCause::Deduplication { intent_expires_at: intent_ends };
    let change = match (PatchContext { vault, caller, now, cause }).apply(found, patch) {
        Ok(change) if !change.identity_changed => change,
        Ok(_) | Err(Error::Forbidden(_) | Error::Invalid(_)) => {
            return Ok(WriteStep::Insert(Deduplicate::Yes));
        }
        Err(error) => return Err(error),
    };
    let shown_by = change.read_permit(caller, may.min(pending.permit.transform()))?;
    Ok(WriteStep::Update { change: Box::new(change), read_permit: shown_by })
}

pub(crate) fn existing_token_result(
    permit: &Permit,
    found: &StoredToken,
    audience: Audience<'_>,
) -> Result<WrittenToken, Error> {
    let token = reveal_existing(permit, found, audience)?;
    Ok(WrittenToken { token, deduplicated: Some(ReadExisting) })
}

pub(crate) fn contention_error() -> Error {
    Error::Unavailable("too many writers of one token".into())
}
