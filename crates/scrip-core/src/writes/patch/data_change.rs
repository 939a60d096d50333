//! What a patch of a token is applied with; the data of a patch: its rules, and what it changes.

use serde_json::json;

use crate::{
    Error, FieldError, Timestamp, Vault,
    card::TokenType,
    disclosure::{
        KnownInputs, PatchCoverage, check_data, check_field_place, check_field_update,
        effective_mask, evaluates_field_values, misplaces_field_values, patch_coverage,
        replaces_all_data,
    },
    policy::{AccessTarget, Caller},
    token::{
        Cvc, CvcRecord, TokenBody, TokenPatch, TokenRecord,
        body::{seal_cvc, take_cvc},
    },
    types::{
        Permission, Plaintext,
        plaintext::{VALUES_MAX, count_values},
    },
    writes::evaluation::{FailureMode, id_contains_secret},
};

/// What a patch does with the data.
pub(super) struct DataChange {
    pub(super) cvc: CvcEdit,
    pub(super) failure_mode: FailureMode,
    /// What the caller knows of the inputs of expressions; `None` if it may read all of them.
    pub(super) known: Option<KnownInputs>,
    pub(super) replaces_data: bool,
}

impl PatchContext<'_> {
    /// Applies the attributes of the patch to the body, and the data with its rules.
    pub(super) fn apply_data(
        self,
        before: &TokenRecord,
        body: &mut TokenBody,
        cvc_record: &mut Option<CvcRecord>,
        patch: &TokenPatch,
    ) -> Result<DataChange, Error> {
        let Self { vault, caller, now, .. } = self;
        let token_type = before.token_type;
        let failure_mode = self.failure_mode(before);
        let mut change =
            DataChange { cvc: CvcEdit::Keep, failure_mode, known: None, replaces_data: false };
        let Some(data) = &patch.data else {
            patch_attributes(token_type, body, patch)?;
            check_value_count(body, patch)?;
            if patch.metadata.is_some() {
                change.known = self.withhold_outputs(before, body, &json!({}), patch);
            }
            return Ok(change);
        };
        let target = AccessTarget { containers: &before.containers, id: Some(&before.id) };
        check_field_place(caller, Permission::TokenUpdate, token_type, target)?;
        check_field_update(caller, before)?;
        if self.writes_typed_values() {
            body.typed_at_ms = Some(now.unix_ms);
        }
        let data_before = body.data.duplicate();
        let (sets_cvc, new_cvc) = patch_data(caller, token_type, body, data)?;
        if sets_cvc {
            change.cvc = CvcEdit::Set;
            let seal = |it: Cvc| seal_cvc(&vault.epoch_keys, caller, &it, &before.id, now);
            *cvc_record = new_cvc.map(seal).transpose()?;
        }
        check_number_outside_id(before, body, data)?;
        patch_attributes(token_type, body, patch)?;
        check_value_count(body, patch)?;
        (change.failure_mode, change.known) =
            self.apply_disclosure_rules(before, body, &data_before, data, patch);
        change.replaces_data = replaces_all_data(token_type, data_before.expose(), data.expose());
        body.is_marked &= !change.replaces_data;
        body.is_marked |= misplaces_field_values(caller, token_type, data.expose())
            || evaluates_field_values(caller, body);
        Ok(change)
    }
}

/// Checks that data and mask have no more values than one request can have. A token of an earlier version
/// may have more, until a patch changes them.
fn check_value_count(body: &TokenBody, patch: &TokenPatch) -> Result<(), Error> {
    if patch.data.is_none() && patch.mask.is_none() {
        return Ok(());
    }
    let mut values = std::iter::once(body.data.expose()).chain(&body.mask);
    if values.try_fold(VALUES_MAX, |allowed, it| count_values(it, allowed)).is_none() {
        let rule = "the token would have more than 100,000 values";
        return Err(FieldError::new("data", rule).into());
    }
    Ok(())
}

/// The id does not change, so the number must not become one that the id contains. A patch without
/// the number must not reveal anything about it.
fn check_number_outside_id(
    before: &TokenRecord,
    body: &TokenBody,
    patch: &Plaintext,
) -> Result<(), Error> {
    if patch_has_secret(before.token_type, patch)
        && id_contains_secret(&before.id, before.token_type, body)
    {
        let rule = "must not be a number that the id contains";
        return Err(FieldError::new("data", rule).into());
    }
    Ok(())
}

/// Merges a patch into the data. Returns whether the patch names the CVC, and the new CVC.
fn patch_data(
    caller: &Caller,
    token_type: TokenType,
    body: &mut TokenBody,
    patch: &Plaintext,
) -> Result<(bool, Option<Cvc>), Error> {
    let is_marked = body.is_marked
        || caller.marks_fields()
        || misplaces_field_values(caller, token_type, patch.expose());
    let data = &mut body.data;
    json_patch::merge(data.expose_mut(), patch.expose());
    if data.expose().is_null() {
        return Err(FieldError::new("data", "is required").into());
    }
    check_data(caller, token_type, data, is_marked)?;
    let sets_cvc = token_type.has_cvc() && patch.expose().get("cvc").is_some();
    Ok((sets_cvc, take_cvc(token_type, data)))
}

fn patch_attributes(
    token_type: TokenType,
    body: &mut TokenBody,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if let Some(it) = &patch.mask {
        let mut mask = effective_mask(token_type, body);
        json_patch::merge(&mut mask, it);
        body.mask = token_type.custom_mask(mask);
    }
    if let Some(it) = &patch.metadata {
        let mut metadata = serde_json::json!(body.metadata);
        json_patch::merge(&mut metadata, it);
        body.metadata = serde_json::from_value(metadata)
            .map_err(|_| FieldError::new("metadata", "must be a map from text to text"))?;
    }
    if let Some(it) = &patch.search_indexes {
        body.search_indexes.clone_from(it);
    }
    if let Some(it) = &patch.fingerprint_expression {
        body.fingerprint_expression.clone_from(it);
    }
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) enum CvcEdit {
    Keep,
    Set,
}

/// The caller and the cause of a patch.
#[derive(Clone, Copy)]
pub(crate) struct PatchContext<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) caller: &'a Caller,
    pub(crate) now: Timestamp,
    pub(crate) cause: PatchCause,
}

#[derive(Clone, Copy)]
pub(crate) enum PatchCause {
    /// A PATCH request.
    Request,
    /// A create request that found this token, possibly by conversion of an intent with this
    /// expiry. `is_typed`: a payer typed its data into a hosted field.
    Deduplication { intent_expires_at: Option<Timestamp>, is_typed: bool },
}

/// Whether a patch names the secret of the type, with any value.
pub(super) fn patch_has_secret(token_type: TokenType, patch: &Plaintext) -> bool {
    let secret: Vec<&str> = token_type.secret_property().into_iter().collect();
    patch_coverage(token_type, &[secret], patch.expose(), false) != PatchCoverage::Absent
}
