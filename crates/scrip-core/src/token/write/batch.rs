//! Tokens that are made together: planned, written in one transaction, and planned again around
//! whatever stood in the way.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::TokenId,
    idempotency::{Remember, answer::Answering},
    policy::{
        Caller,
        DeduplicationBehavior::{ReadExisting, UpdateExisting},
        Permission, Permit,
    },
    threeds::named_by_session,
    token::{
        Batched, Deduplicate, Obstacle, Outcome, Render, StoredToken, TokenBatch, TokenWrite,
        Written,
        reveal::{Audience, reveal_found},
        write::{
            conversion,
            draft::Draft,
            patch::{Change, PatchCause, Patching},
        },
    },
};

/// Writers of one token take turns, and each turn one of them succeeds: this many at once do.
pub(crate) const ATTEMPTS_MAX: usize = 256;
/// A large batch is not tried as often as a single token is.
const LARGE_ATTEMPTS_MAX: usize = 16;

pub(crate) struct Batch<'a> {
    caller: &'a Caller,
    operation: Operation,
    entries: Vec<Entry>,
    now: Timestamp,
}

/// A token and how it is going to be written.
struct Entry {
    draft: Draft,
    step: Step,
}

enum Step {
    Insert(Deduplicate),
    /// The one that is there is updated instead. `shown_by` is what the answer may show of it.
    Update {
        change: Box<Change>,
        shown_by: Permit,
    },
}

impl<'a> Batch<'a> {
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        drafts: Vec<Draft>,
        now: Timestamp,
    ) -> Self {
        let mut identities = Vec::new();
        let entry = |draft: Draft| {
            let identity = draft.identity();
            let again = identity.is_some() && identities.contains(&identity);
            identities.push(identity);
            Entry { step: first_step(caller, &draft, again), draft }
        };
        Self { caller, operation, entries: drafts.into_iter().map(entry).collect(), now }
    }

    /// All of them, or none. The claim in `remember` is held until they are on disk.
    ///
    /// # Errors
    /// An id is taken, or no rule lets the caller update what is there already.
    pub(crate) async fn write(
        mut self,
        vault: &Vault,
        remember: Option<Remember<[Written]>>,
    ) -> Result<Vec<Written>, Error> {
        for entry in &mut self.entries {
            entry.draft.seal_code(vault).await?;
        }
        let attempts = ATTEMPTS_MAX.checked_div(self.entries.len()).unwrap_or(1);
        for _ in 0..attempts.max(LARGE_ATTEMPTS_MAX) {
            let render = remember.as_ref().map(|it| self.render(vault, it)).transpose()?;
            let writes: Result<_, _> = self.entries.iter().map(|it| self.write_of(it)).collect();
            let batch = TokenBatch { writes: writes?, render };
            let inquiry = self.caller.inquire(Permission::TokenCreate)?;
            match vault.store.write_tokens(inquiry, batch).await? {
                Batched::Written(outcomes) => return self.written(vault, outcomes).await,
                Batched::Refused(obstacles) => {
                    for (at, obstacle) in obstacles {
                        self.avoid(vault, at, obstacle)?;
                    }
                    self.settle(vault).await?;
                }
            }
        }
        Err(too_contended())
    }

    fn write_of(&self, entry: &Entry) -> Result<TokenWrite, Error> {
        let audit = AuditRecord::new(self.operation, self.caller, self.now);
        match &entry.step {
            Step::Insert(deduplicate) => entry.draft.write(*deduplicate, audit),
            Step::Update { change, .. } => {
                let permit = self.caller.permit(Permission::TokenUpdate, &change.token.record)?;
                let intent = entry.draft.intent.as_ref().map(|it| it.id);
                Ok(change.write(permit, intent, Deduplicate::No, audit))
            }
        }
    }

    fn avoid(&mut self, vault: &Vault, at: usize, obstacle: Obstacle) -> Result<(), Error> {
        let (before, rest) = self.entries.split_at_mut_checked(at).unwrap_or_default();
        let Some(entry) = rest.first_mut() else { return Ok(()) };
        match obstacle {
            Obstacle::IdTaken => {
                // An alias that was drawn before makes way for an id that was asked for.
                let id = &entry.draft.token.record.id;
                let drawn = |it: &Entry| it.inserts(id) && it.draft.is_aliased();
                let earlier = before.iter().position(drawn).filter(|_| !entry.draft.is_aliased());
                return self.rename(vault, earlier.unwrap_or(at));
            }
            Obstacle::IntentGone => return Err(conversion::unknown()),
            Obstacle::NamedBySession => return Err(named_by_session()),
            Obstacle::Stale => entry.step = first_step(self.caller, &entry.draft, false),
            Obstacle::Duplicate(found) => {
                let ours = before.iter().any(|it| it.touches(&found.record.id));
                entry.step = match entry.draft.patch.as_ref().filter(|_| !ours) {
                    None => Step::Insert(Deduplicate::Yes),
                    Some(_) => update_step(vault, self.caller, self.now, &entry.draft, *found)?,
                };
            }
        }
        Ok(())
    }

    /// Never to the id of another one of the batch: that would only move the obstacle, and a batch
    /// full of short aliases would be tried for ever.
    fn rename(&mut self, vault: &Vault, at: usize) -> Result<(), Error> {
        loop {
            let Some(entry) = self.entries.get_mut(at) else { return Ok(()) };
            entry.draft.rename(vault)?;
            let id = entry.draft.token.record.id.clone();
            let others = self.entries.iter().enumerate().filter(|(other, _)| *other != at);
            if !others.map(|(_, it)| it).any(|it| it.inserts(&id)) {
                return Ok(());
            }
        }
    }

    /// The answer to remember. What is known beforehand is made beforehand: whoever waits for the
    /// writer should not wait for this.
    fn render(&self, vault: &Vault, remember: &Remember<[Written]>) -> Result<Render, Error> {
        let audience = Audience::Memory { bins: &vault.bins };
        let prepare = |entry: &Entry| {
            let written = match &entry.step {
                Step::Insert(_) => {
                    Written { token: entry.draft.remembered(audience)?, deduplicated: None }
                }
                Step::Update { change, shown_by } => {
                    change.written(shown_by, Some(UpdateExisting), audience)?
                }
            };
            Ok((entry.draft.permit.again()?, written))
        };
        let prepared: Result<Vec<_>, Error> = self.entries.iter().map(prepare).collect();
        let (permits, mut written): (Vec<_>, Vec<_>) = prepared?.into_iter().unzip();
        let (render, digest) = (remember.render.clone(), remember.claim.digest);
        let (caller, now) = (self.caller.clone(), self.now);
        let bins = Arc::clone(&vault.bins);
        Ok(Box::new(move |outcomes| {
            for ((outcome, permit), written) in outcomes.iter().zip(&permits).zip(&mut written) {
                if let Outcome::Existing(found) = outcome {
                    *written =
                        found_written(permit, found, Audience::Memory { bins: &bins }).ok()?;
                }
            }
            let permission = Permission::TokenCreate;
            let answering = Answering { caller: &caller, permission, digest, now };
            answering.seal(&permits, &written, render(&written)).ok()
        }))
    }

    /// What an update leaves as it is may be a code that another node sealed, and is shown.
    async fn settle(&mut self, vault: &Vault) -> Result<(), Error> {
        for entry in &mut self.entries {
            if let Step::Update { change, shown_by } = &mut entry.step {
                let (transform, now) = (shown_by.transform(), vault.clock.latest());
                change.token.settle_cvc(&vault.epochs, transform, now).await?;
            }
        }
        Ok(())
    }

    async fn written(
        self,
        vault: &Vault,
        mut outcomes: Vec<Outcome>,
    ) -> Result<Vec<Written>, Error> {
        let now = vault.clock.latest();
        for (entry, outcome) in self.entries.iter().zip(&mut outcomes) {
            if let Outcome::Existing(found) = outcome {
                found.settle_cvc(&vault.epochs, entry.draft.permit.transform(), now).await?;
            }
        }
        let audience = Audience::Caller { vault, now };
        let written = |(entry, outcome): (Entry, Outcome)| {
            let Entry { draft, step } = entry;
            match (outcome, step) {
                (Outcome::Existing(found), _) => found_written(&draft.permit, &found, audience),
                (Outcome::New | Outcome::Updated, Step::Update { change, shown_by }) => {
                    change.written(&shown_by, Some(UpdateExisting), audience)
                }
                (Outcome::New | Outcome::Updated, Step::Insert(_)) => {
                    Ok(Written { token: draft.into_view(audience)?, deduplicated: None })
                }
            }
        };
        self.entries.into_iter().zip(outcomes).map(written).collect()
    }
}

impl Entry {
    fn inserts(&self, id: &TokenId) -> bool {
        matches!(self.step, Step::Insert(_)) && self.draft.token.record.id == *id
    }

    fn touches(&self, id: &TokenId) -> bool {
        match &self.step {
            Step::Insert(_) => self.draft.token.record.id == *id,
            Step::Update { change, .. } => change.token.record.id == *id,
        }
    }
}

/// A second one of the same request only reads what the first one made or found. Whoever may not
/// update what is there need not be told of it: only the rules of sessions are about ids.
fn first_step(caller: &Caller, draft: &Draft, again: bool) -> Step {
    let containers = &draft.token.record.containers;
    let may_update = || caller.transform(Permission::TokenUpdate, containers).is_some();
    let updates = draft.patch.is_some() && !again && (caller.session().is_some() || may_update());
    Step::Insert(match draft.deduplicate {
        Deduplicate::Yes if updates => Deduplicate::Tell,
        wanted @ (Deduplicate::Yes | Deduplicate::No | Deduplicate::Tell) => wanted,
    })
}

/// Updating needs the permission to update, there; without it the existing token is read.
fn update_step(
    vault: &Vault,
    caller: &Caller,
    now: Timestamp,
    draft: &Draft,
    found: StoredToken,
) -> Result<Step, Error> {
    let may = caller.transform(Permission::TokenUpdate, &found.record);
    let (Some(may), Some(patch)) = (may, &draft.patch) else {
        return Ok(Step::Insert(Deduplicate::Yes));
    };
    if found.record.expressions.browser_chose_id {
        return Ok(Step::Insert(Deduplicate::Yes));
    }
    // What the caller would change is not its to change, or cannot be: it is read, and nobody is told
    // what it is that differs.
    let intent_ends = draft.intent.as_ref().map(|it| it.expires_at);
    let cause = PatchCause::Deduplication { intent_ends };
    let change = match (Patching { vault, caller, now, cause }).apply(found, patch) {
        Ok(change) if !change.identity_changed => change,
        Ok(_) | Err(Error::Forbidden(_) | Error::Invalid(_)) => {
            return Ok(Step::Insert(Deduplicate::Yes));
        }
        Err(error) => return Err(error),
    };
    let shown_by = change.shown_by(caller, may.min(draft.permit.transform()))?;
    Ok(Step::Update { change: Box::new(change), shown_by })
}

pub(crate) fn found_written(
    permit: &Permit,
    found: &StoredToken,
    audience: Audience<'_>,
) -> Result<Written, Error> {
    let token = reveal_found(permit, found, audience)?;
    Ok(Written { token, deduplicated: Some(ReadExisting) })
}

pub(crate) fn too_contended() -> Error {
    Error::Unavailable("too many writers of one token".into())
}
