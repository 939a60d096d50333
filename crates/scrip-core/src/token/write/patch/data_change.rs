//! The data of a patch: its rules, and what it changes.

use super::{CvcEdit, PatchContext, check_number_outside_id, patch_attributes, patch_data};
use crate::{
    Error, FieldError,
    policy::{AccessTarget, Permission},
    token::{
        Cvc, CvcRecord, TokenBody, TokenPatch, TokenRecord,
        cvc::seal_cvc,
        disclosure::{
            check_field_place, check_field_update, evaluates_field_values, misplaces_field_values,
            replaces_all_data,
        },
        expression::evaluation::FailureMode,
        plaintext::{VALUES_MAX, count_values},
    },
};

/// What a patch does with the data.
pub(super) struct DataChange {
    pub(super) cvc: CvcEdit,
    pub(super) failure_mode: FailureMode,
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
        let mut change = DataChange { cvc: CvcEdit::Keep, failure_mode, replaces_data: false };
        let Some(data) = &patch.data else {
            patch_attributes(token_type, body, patch)?;
            check_value_count(body, patch)?;
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
        check_number_outside_id(before, body, &data_before, data)?;
        patch_attributes(token_type, body, patch)?;
        check_value_count(body, patch)?;
        change.failure_mode = self.apply_disclosure_rules(before, body, &data_before, patch);
        change.replaces_data = replaces_all_data(data_before.expose(), data.expose());
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
