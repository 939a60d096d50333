//! Update Token: read, patch, write back if nobody else did in between.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::TokenId,
    idempotency::{Remember, answer::Answering},
    policy::{Caller, Permission, Permit},
    threeds::{named_by_session, refuse_number_change},
    token::{
        Batched, Deduplicate, Obstacle, Outcome, Render, TokenBatch, TokenPatch, Written,
        cvc::{gives_cvc, prepare_cvc},
        reveal::Audience,
        write::{
            batch::{ATTEMPTS_MAX, found_written, too_contended},
            draft::deduplicate,
            patch::{Change, PatchCause, Patching},
        },
    },
};

/// # Errors
/// There is no such live token, the patch breaks a rule, or no rule lets the caller do it.
pub async fn update_token(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    patch: TokenPatch,
    remember: Option<Remember<Written>>,
) -> Result<Written, Error> {
    let charged = caller.work().spent();
    for _ in 0..ATTEMPTS_MAX {
        caller.work().return_to(charged);
        let (now, latest) = (vault.clock.now(), vault.clock.latest());
        let inquiry = caller.inquire(Permission::TokenUpdate)?;
        let found = vault.store.find_token(inquiry, id, latest).await?;
        let mut stored = found.ok_or(Error::NotFound)?;
        let permit = caller.permit(Permission::TokenUpdate, &stored.record)?;
        refuse_number_change(vault, caller, &stored.record, &patch).await?;
        if patch.data.as_ref().is_some_and(|it| gives_cvc(stored.record.token_type, it)) {
            prepare_cvc(&vault.epochs, caller, now).await?;
        } else {
            stored.settle_cvc(&vault.epochs, permit.transform(), latest).await?;
        }
        let patching = Patching { vault, caller, now, cause: PatchCause::Request };
        let mut change = patching.apply(stored, &patch)?;
        change.spend_guesses(vault, caller).await?;
        // Two permits: one to write with, one to show the result by, after a move perhaps.
        let shown_by = change.shown_by(caller, permit.transform())?;
        let render =
            remember.as_ref().map(|it| render(vault, &change, &shown_by, it, now)).transpose()?;
        let audit = AuditRecord::new(Operation::UpdateToken, caller, now);
        let write = change.write(permit, None, looked_for(caller, &change, &patch), audit);
        let batch = TokenBatch { writes: vec![write], render };
        let inquiry = caller.inquire(Permission::TokenUpdate)?;
        let audience = Audience::Caller { vault, now: latest };
        match vault.store.write_tokens(inquiry, batch).await? {
            Batched::Written(mut outcomes) => match outcomes.as_mut_slice() {
                [Outcome::Existing(found)] => {
                    found.settle_cvc(&vault.epochs, shown_by.transform(), latest).await?;
                    return found_written(&shown_by, found, audience);
                }
                _ => return change.written(&shown_by, None, audience),
            },
            Batched::Refused(obstacles) => {
                if obstacles.iter().any(|(_, it)| *it == Obstacle::NamedBySession) {
                    return Err(named_by_session());
                }
            }
        }
    }
    Err(too_contended())
}

/// Whether it is a candidate for being somebody else's duplicate: only if it becomes another.
fn looked_for(caller: &Caller, change: &Change, patch: &TokenPatch) -> Deduplicate {
    let fingerprinted = change.token.record.fingerprint.is_some();
    let wanted = deduplicate(caller, patch.deduplicate, fingerprinted);
    if change.identity_changed { wanted } else { Deduplicate::No }
}

/// The answer to remember. What is known beforehand is made beforehand: whoever waits for the
/// writer should not wait for this.
fn render(
    vault: &Vault,
    change: &Change,
    shown_by: &Permit,
    remember: &Remember<Written>,
    now: Timestamp,
) -> Result<Render, Error> {
    let permit = shown_by.again()?;
    let updated = change.written(shown_by, None, Audience::Memory { bins: &vault.bins })?;
    let (render, digest) = (remember.render.clone(), remember.claim.digest);
    let bins = Arc::clone(&vault.bins);
    Ok(Box::new(move |outcomes| {
        let written = match outcomes {
            [Outcome::Existing(found)] => {
                found_written(&permit, found, Audience::Memory { bins: &bins }).ok()?
            }
            _ => updated,
        };
        let rendered = render(&written);
        let (caller, permission) = (permit.caller().clone(), permit.permission());
        let answering = Answering { caller: &caller, permission, digest, now };
        answering.seal(&[permit], &[written], rendered).ok()
    }))
}
