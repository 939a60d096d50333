//! Update Token: read, patch, write back if nobody else did in between.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{AuditRecord, Operation},
    id::TokenId,
    idempotency::{ResponseRecorder, response::ResponseSealer},
    policy::{Caller, Permission, Permit},
    threeds::{number_in_use_error, reject_number_change},
    token::{
        BatchOutcome, BuildIdempotencyRecord, Deduplicate, TokenBatch, TokenPatch, WriteConflict,
        WriteOutcome, WrittenToken,
        cvc::{has_cvc_value, load_cvc_key},
        reveal::Audience,
        write::{
            batch::{ATTEMPTS_MAX, contention_error, existing_token_result},
            patch::{PatchCause, PatchContext, PatchedToken},
            pending_token::resolve_deduplication,
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
    recorder: Option<ResponseRecorder<WrittenToken>>,
) -> Result<WrittenToken, Error> {
    let charged = caller.work().spent();
    for _ in 0..ATTEMPTS_MAX {
        caller.work().reset_to(charged);
        let (now, latest) = (vault.clock.now(), vault.clock.latest());
        let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
        let found = vault.store.find_token(lookup, id, latest).await?;
        let mut stored = found.ok_or(Error::NotFound)?;
        let permit = caller.permit(Permission::TokenUpdate, &stored.record)?;
        reject_number_change(vault, caller, &stored.record, &patch).await?;
        if patch.data.as_ref().is_some_and(|it| has_cvc_value(stored.record.token_type, it)) {
            load_cvc_key(&vault.epoch_keys, caller, now).await?;
        } else {
            stored.resolve_cvc(&vault.epoch_keys, permit.transform(), latest).await?;
        }
        let patching = PatchContext { vault, caller, now, cause: PatchCause::Request };
        let mut change = patching.apply(stored, &patch)?;
        change.charge_guess_budget(vault, caller).await?;
        // Two permits: one to write with, one to show the result by, after a move perhaps.
        let read_permit = change.read_permit(caller, permit.transform())?;
        let render = recorder
            .as_ref()
            .map(|it| make_record_builder(vault, &change, &read_permit, it, now))
            .transpose()?;
        let audit = AuditRecord::new(Operation::UpdateToken, caller, now);
        let write = change.write(permit, None, deduplication_mode(caller, &change, &patch), audit);
        let batch = TokenBatch { writes: vec![write], build_record: render };
        let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
        let audience = Audience::Caller { vault, now: latest };
        match vault.store.write_tokens(lookup, batch).await? {
            BatchOutcome::Written(mut outcomes) => match outcomes.as_mut_slice() {
                [WriteOutcome::Existing(found)] => {
                    found.resolve_cvc(&vault.epoch_keys, read_permit.transform(), latest).await?;
                    return existing_token_result(&read_permit, found, audience);
                }
                _ => return change.written_token(&read_permit, None, audience),
            },
            BatchOutcome::Rejected(obstacles) => {
                if obstacles.iter().any(|(_, it)| *it == WriteConflict::UsedBySession) {
                    return Err(number_in_use_error());
                }
            }
        }
    }
    Err(contention_error())
}

/// Whether it is a candidate for being somebody else's duplicate: only if it becomes another.
fn deduplication_mode(caller: &Caller, change: &PatchedToken, patch: &TokenPatch) -> Deduplicate {
    let fingerprinted = change.token.record.fingerprint.is_some();
    let wanted = resolve_deduplication(caller, patch.deduplicate, fingerprinted);
    if change.identity_changed { wanted } else { Deduplicate::No }
}

/// The answer to remember. What is known beforehand is made beforehand: whoever waits for the
/// writer should not wait for this.
fn make_record_builder(
    vault: &Vault,
    change: &PatchedToken,
    read_permit: &Permit,
    recorder: &ResponseRecorder<WrittenToken>,
    now: Timestamp,
) -> Result<BuildIdempotencyRecord, Error> {
    let permit = read_permit.recheck()?;
    let updated = change.written_token(
        read_permit,
        None,
        Audience::StoredResponse { bins: &vault.bin_data },
    )?;
    let (render, digest) = (recorder.render.clone(), recorder.claim.digests);
    let bins = Arc::clone(&vault.bin_data);
    Ok(Box::new(move |outcomes| {
        let written = match outcomes {
            [WriteOutcome::Existing(found)] => {
                existing_token_result(&permit, found, Audience::StoredResponse { bins: &bins })
                    .ok()?
            }
            _ => updated,
        };
        let rendered = render(&written);
        let (caller, permission) = (permit.caller().clone(), permit.permission());
        let answering = ResponseSealer { caller: &caller, permission, digest, now };
        answering.seal_record(&[permit], &[written], rendered).ok()
    }))
}
