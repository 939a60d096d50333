//! Update Token: reads the token, applies the patch, and writes it if no other request changed it.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    disclosure::Deduplicate,
    equality::Comparison,
    idempotency::{ResponseRecorder, response::ResponseSealer},
    policy::{Caller, Permit},
    reveal::Audience,
    threeds_session::reject_number_change,
    token::{
        StoredToken, TokenPatch, WrittenToken,
        body::{has_cvc_value, load_cvc_key},
        number_in_use_error,
    },
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, TokenBatch, WriteConflict, WriteOutcome,
        check_index_entries, count_index_entries,
    },
    types::{Operation, Permission, id::TokenId},
    work_meter::contention_error,
    writes::{
        batch::{ATTEMPTS_MAX, existing_token_result},
        duplicate_identity::resolve_deduplication,
        patch::{PatchCause, PatchContext, PatchedToken, hide_unknown_fingerprint},
    },
};

/// Errors: there is no such live token, the patch is invalid, or no rule allows it.
pub async fn update_token(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    patch: TokenPatch,
    recorder: Option<ResponseRecorder<WrittenToken>>,
) -> Result<WrittenToken, Error> {
    let attempt_start = caller.work().start_attempt();
    for _ in 0..ATTEMPTS_MAX {
        let (now, latest) = (vault.clock.now(), vault.clock.latest());
        let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
        let stored = vault.store.find_token(lookup, id, latest).await?;
        let mut stored = stored.ok_or(Error::NotFound)?;
        let permit = caller.permit(Permission::TokenUpdate, &stored.record)?;
        reject_number_change(vault, caller, &stored.record, &patch).await?;
        if patch.data.as_ref().is_some_and(|it| has_cvc_value(stored.record.token_type, it)) {
            load_cvc_key(&vault.epoch_keys, caller, now).await?;
        } else {
            stored.resolve_cvc(&vault.epoch_keys, permit.transform(), latest).await?;
        }
        let patch_context = PatchContext { vault, caller, now, cause: PatchCause::Request };
        let entries_before = count_index_entries(&stored.record);
        let mut change = patch_context.apply(stored, &patch)?;
        check_index_entries(&change.token.record, entries_before)?;
        let comparison = change.count_numbers(vault, caller).await?;
        // Two permits: one for the write, and one for the response, which may be after a move.
        let read_permit = change.read_permit(caller, permit.transform())?;
        let build_record = recorder
            .as_ref()
            .map(|it| make_record_builder(vault, &change, &read_permit, it, now))
            .transpose()?;
        let audit = AuditRecord::new(Operation::UpdateToken, caller, now);
        let deduplicate = deduplication_mode(caller, &change, &patch, comparison);
        let write = change.write(permit, None, deduplicate, audit, vault.fill_random);
        let batch = TokenBatch { writes: vec![write], build_record };
        let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
        let audience = Audience::Caller { vault, now: latest };
        match vault.store.write_tokens(lookup, batch).await? {
            BatchOutcome::Written(mut outcomes) => match outcomes.as_mut_slice() {
                [WriteOutcome::Existing(existing)] => {
                    existing
                        .resolve_cvc(&vault.epoch_keys, read_permit.transform(), latest)
                        .await?;
                    let knows_data = change.knows_data;
                    return existing_token(&read_permit, existing, audience, knows_data);
                }
                _ => return change.written_token(&read_permit, None, audience),
            },
            BatchOutcome::Rejected(conflicts) => {
                if conflicts.iter().any(|(_, it)| *it == WriteConflict::UsedBySession) {
                    return Err(number_in_use_error());
                }
                caller.work().repeat_attempt(attempt_start)?;
            }
        }
    }
    Err(contention_error())
}

/// The deduplication of an update: only if the identity of the token changes, and the caller may compare
/// it. A move without the right to read would tell that two hidden tokens are equal.
fn deduplication_mode(
    caller: &Caller,
    change: &PatchedToken,
    patch: &TokenPatch,
    comparison: Option<Comparison>,
) -> Deduplicate {
    match comparison.filter(|_| change.identity_changed && change.may_deduplicate(caller)) {
        Some(comparison) => {
            resolve_deduplication(caller, patch.deduplicate, &change.token.record, comparison)
        }
        None => Deduplicate::No,
    }
}

/// The equal token that the update found, for the response.
fn existing_token(
    permit: &Permit,
    existing: &StoredToken,
    audience: Audience<'_>,
    knows_data: bool,
) -> Result<WrittenToken, Error> {
    let WrittenToken { token, deduplicated } = existing_token_result(permit, existing, audience)?;
    Ok(WrittenToken { token: hide_unknown_fingerprint(token, knows_data), deduplicated })
}

/// Makes the function that builds the stored response inside the transaction. All parts that do not
/// depend on the outcome are built before the transaction, so that other writers in the queue wait
/// less.
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
    let (bins, knows_data) = (Arc::clone(&vault.bin_data), change.knows_data);
    Ok(Box::new(move |outcomes| {
        let written = match outcomes {
            [WriteOutcome::Existing(existing)] => {
                let audience = Audience::StoredResponse { bins: &bins };
                existing_token(&permit, existing, audience, knows_data).ok()?
            }
            _ => updated,
        };
        let rendered = render(&written);
        let (caller, permission) = (permit.caller().clone(), permit.permission());
        let sealer = ResponseSealer { caller: &caller, permission, digest, now };
        sealer.seal_record(&[permit], &[written], rendered).ok()
    }))
}
