//! A patch applied to a token that was read: what would be written back, and what is shown of it.

use serde_json::Value;

use crate::{
    Vault,
    access::Subject,
    audit::AuditRecord,
    body::Body,
    caller::{Caller, Permit},
    container::Containers,
    cvc::{Cvc, seal_cvc, take_cvc},
    draft::check_expiry,
    error::{Error, FieldError, Refusal},
    expressions::{evaluate, names_secret},
    id::TokenIntentId,
    permission::{Permission, Transform},
    plain::Plain,
    reveal::{Audience, reveal_found, show},
    store::{CvcChange, Deduplicate, Modified, StoredToken, TokenRecord, TokenWrite, UpdateToken},
    tenant::{DeduplicationBehavior, TenantKind},
    time::Timestamp,
    token::{TokenPatch, Written},
    token_type::TokenType,
};

/// A patched token, ready to be written.
pub(crate) struct Change {
    pub(crate) token: StoredToken,
    body: Body,
    cvc: CvcEdit,
    /// Whether it is a candidate for being somebody else's duplicate.
    pub(crate) identity_changed: bool,
}

#[derive(Clone, Copy)]
enum CvcEdit {
    Keep,
    Set,
}

impl Change {
    pub(crate) fn new(
        vault: &Vault,
        caller: &Caller,
        stored: StoredToken,
        patch: &TokenPatch,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let tenant = caller.tenant();
        let StoredToken { record: before, cvc: kept_cvc } = stored;
        let mut body = Body::open(tenant, &before)?;
        let containers = moved(caller, &before, patch)?;
        check_rights(caller, &before, &body, patch)?;

        let mut kept_cvc = kept_cvc;
        let mut cvc = CvcEdit::Keep;
        if let Some(data) = &patch.data {
            let (patched, code) =
                patch_data((before.token_type, tenant.kind), &mut body.data, data)?;
            if patched {
                cvc = CvcEdit::Set;
                let seal = |it: Cvc| seal_cvc(vault, caller, &it, &before.id, now);
                kept_cvc = code.map(seal).transpose()?;
            }
            // The id stays, so a number that it happens to hold cannot become this card's.
            if names_secret(&before.id, before.token_type, &body) {
                let rule = "must not be a number that the id contains";
                return Err(FieldError::new("data", rule).into());
            }
        }
        patch_attributes(before.token_type, &mut body, patch)?;
        let expires_at = patch.expires_at.unwrap_or(before.expires_at);
        if patch.expires_at.is_some() {
            check_expiry(expires_at, now)?;
        }
        let evaluated = evaluate(caller, before.token_type, &body)?;
        let identity_changed = evaluated.fingerprint != before.fingerprint
            || containers.set_text() != before.containers.set_text();

        let mut record = TokenRecord {
            fingerprint: evaluated.fingerprint,
            containers,
            modified: Some(Modified { by: caller.application(), at: now }),
            expires_at,
            revision: before.revision.saturating_add(1),
            indexes: evaluated.indexes,
            ..before
        };
        record.body = body.seal(tenant, &record)?;
        let token = StoredToken { record, cvc: kept_cvc };
        Ok(Self { token, body, cvc, identity_changed })
    }

    /// The answer shows no more than the caller saw before the token moved, or sees after.
    pub(crate) fn shown_by(&self, caller: &Caller, before: Transform) -> Result<Permit, Error> {
        let permit = caller.permit(Permission::TokenUpdate, &self.token.record)?;
        Ok(permit.weakened(before))
    }

    /// What the answer shows of it. A token that was found is shown by the right to read it, not
    /// only by the right to update.
    pub(crate) fn written(
        &self,
        shown_by: &Permit,
        deduplicated: Option<DeduplicationBehavior>,
        audience: Audience<'_>,
    ) -> Result<Written, Error> {
        let token = match deduplicated {
            None => show(shown_by, &self.token, self.body.duplicate(), audience)?,
            Some(_) => reveal_found(shown_by, &self.token, audience)?,
        };
        Ok(Written { token, deduplicated })
    }

    pub(crate) fn write(
        &self,
        (permit, intent): (Permit, Option<TokenIntentId>),
        deduplicate: Deduplicate,
        audit: AuditRecord,
    ) -> TokenWrite {
        let token = self.token.clone();
        let cvc = match (self.cvc, token.cvc) {
            (CvcEdit::Keep, _) => CvcChange::Keep,
            (CvcEdit::Set, None) => CvcChange::Remove,
            (CvcEdit::Set, Some(cvc)) => CvcChange::Replace(cvc),
        };
        TokenWrite::Update(UpdateToken {
            permit,
            token: token.record,
            cvc,
            intent,
            deduplicate,
            audit,
        })
    }
}

/// Where the token goes, which must be allowed and must not show the caller more of it.
fn moved(caller: &Caller, before: &TokenRecord, patch: &TokenPatch) -> Result<Containers, Error> {
    let Some(containers) = &patch.containers else { return Ok(before.containers.clone()) };
    let assumed = || Containers::from(before.token_type.default_container());
    let containers = containers.clone().unwrap_or_else(assumed);
    if containers.set_text() != before.containers.set_text() {
        let there = Subject { containers: &containers, id: Some(&before.id) };
        caller.permit(Permission::TokenUpdate, there)?;
        if caller.sight(there) > caller.sight(before) {
            return Err(Error::Forbidden(Refusal::StrongerTransform));
        }
    }
    Ok(containers)
}

/// A new expression over data that the caller may not read would be a way to read it.
fn check_rights(
    caller: &Caller,
    before: &TokenRecord,
    body: &Body,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if caller.sight(before) == Some(Transform::Reveal) {
        return Ok(());
    }
    let mask_changes = patch.mask.as_ref().is_some_and(|it| {
        let mut mask = effective_mask(before.token_type, body);
        let unchanged = mask.clone();
        json_patch::merge(&mut mask, it);
        mask != unchanged
    });
    let fingerprint_changes = patch.fingerprint_expression.as_ref().is_some_and(|it| {
        let assumed = before.token_type.default_fingerprint_expression();
        it.as_deref().unwrap_or(assumed)
            != body.fingerprint_expression.as_deref().unwrap_or(assumed)
    });
    let indexes_change = patch.search_indexes.as_ref().is_some_and(|it| {
        let assumed = before.token_type.default_indexes();
        it.as_deref().unwrap_or(assumed) != body.search_indexes.as_deref().unwrap_or(assumed)
    });
    let changes = [
        ("mask", mask_changes),
        ("fingerprint_expression", fingerprint_changes),
        ("search_indexes", indexes_change),
    ];
    match changes.into_iter().find(|(_, changed)| *changed) {
        Some((attribute, _)) => Err(Error::Forbidden(Refusal::NeedsReveal(attribute))),
        None => Ok(()),
    }
}

fn effective_mask(token_type: TokenType, body: &Body) -> Value {
    let assumed = || token_type.default_mask().cloned().unwrap_or_default();
    body.mask.clone().unwrap_or_else(assumed)
}

/// Whether the patch spoke of the cvc, and the code it gave.
fn patch_data(
    (token_type, kind): (TokenType, TenantKind),
    data: &mut Plain,
    patch: &Plain,
) -> Result<(bool, Option<Cvc>), Error> {
    json_patch::merge(data.expose_mut(), patch.expose());
    if data.expose().is_null() {
        return Err(FieldError::new("data", "is required").into());
    }
    token_type.check(data.expose_mut(), kind).map_err(Error::Invalid)?;
    let spoken = token_type.has_cvc() && patch.expose().get("cvc").is_some();
    Ok((spoken, take_cvc(token_type, data)))
}

fn patch_attributes(
    token_type: TokenType,
    body: &mut Body,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if let Some(it) = &patch.mask {
        let mut mask = effective_mask(token_type, body);
        json_patch::merge(&mut mask, it);
        body.mask = token_type.own_mask(mask);
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
