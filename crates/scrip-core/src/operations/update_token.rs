//! Update Token: read, patch, write back if nobody else did in between.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Vault,
    access::Subject,
    answer::{Remember, remembered},
    audit::{AuditRecord, Operation},
    body::Body,
    caller::{Caller, Permit},
    container::Containers,
    cvc::{Cvc, seal_cvc, take_cvc},
    error::{Error, FieldError, Refusal},
    expressions::{evaluate, names_secret},
    id::TokenId,
    operations::{check_expiry, deduplicate},
    permission::{Permission, Transform},
    plain::Plain,
    reveal::{Audience, reveal_found, show},
    store::{
        CvcChange, Deduplicate, Modified, Render, StoredToken, TokenRecord, UpdateToken, Updated,
    },
    tenant::DeduplicationBehavior,
    time::Timestamp,
    token::{TokenPatch, Written},
    token_type::TokenType,
};

/// Writers of one token take turns, and each turn one of them succeeds: this many at once do.
pub(crate) const ATTEMPTS_MAX: usize = 256;

/// # Errors
/// There is no such live token, the patch breaks a rule, or no rule lets the caller do it.
pub async fn update_token(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    patch: TokenPatch,
    remember: Option<Remember<Written>>,
) -> Result<Written, Error> {
    rewrite(vault, caller, id, (&patch, None), remember.as_ref()).await
}

/// Create Token found this one and was told to update it. `shown` is what the create may show.
pub(crate) async fn update_existing(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    (patch, shown): (TokenPatch, Transform),
    remember: Option<Remember<Written>>,
) -> Result<Written, Error> {
    let written = rewrite(vault, caller, id, (&patch, Some(shown)), remember.as_ref()).await;
    // Gone in the blink between the two transactions: nothing was done, and a retry creates it.
    written.map_err(|error| match error {
        Error::NotFound => Error::Unavailable("the duplicate was deleted meanwhile".into()),
        other @ (Error::Invalid(_)
        | Error::Forbidden(_)
        | Error::Conflict { .. }
        | Error::Unprocessable { .. }
        | Error::TooMany { .. }
        | Error::Unavailable(_)
        | Error::Internal(_)) => other,
    })
}

async fn rewrite(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    (patch, as_found): (&TokenPatch, Option<Transform>),
    remember: Option<&Remember<Written>>,
) -> Result<Written, Error> {
    for _ in 0..ATTEMPTS_MAX {
        let now = vault.clock.now();
        let inquiry = caller.inquire(Permission::TokenUpdate)?;
        let stored = vault.store.find_token(inquiry, id, now).await?.ok_or(Error::NotFound)?;
        let permit = caller.permit(Permission::TokenUpdate, &stored.record)?;
        let change = Change::new(vault, caller, stored, patch, now)?;
        // Two permits: one to write with, one to show the result by, after a move perhaps.
        let most = as_found.map_or(permit.transform(), |it| it.min(permit.transform()));
        let shown_by = change.shown_by(caller, most)?;
        let render =
            remember.map(|it| change.render(vault, &shown_by, it, as_found)).transpose()?;
        let update = change.update(caller, patch, render);
        match vault.store.update_token(permit, update).await? {
            Updated::Done => {
                let audience = Audience::Caller { vault, now };
                return change.written(&shown_by, audience, as_found);
            }
            Updated::Duplicate(found) => {
                let audience = Audience::Caller { vault, now };
                let token = reveal_found(&shown_by, &found, audience)?;
                let deduplicated = Some(DeduplicationBehavior::ReadExisting);
                return Ok(Written { token, deduplicated });
            }
            Updated::Stale => (),
        }
    }
    Err(too_contended())
}

pub(crate) fn too_contended() -> Error {
    Error::Unavailable("too many writers of one token".into())
}

/// A patched token, ready to be written.
struct Change {
    token: StoredToken,
    body: Body,
    cvc: CvcEdit,
    /// Whether it is a candidate for being somebody else's duplicate.
    identity_changed: bool,
    now: Timestamp,
}

#[derive(Clone, Copy)]
enum CvcEdit {
    Keep,
    Set,
}

impl Change {
    fn new(
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
            let (patched, code) = patch_data(before.token_type, &mut body.data, data)?;
            if patched {
                cvc = CvcEdit::Set;
                kept_cvc = code.map(|it| seal_cvc(vault, caller, &it, &before.id, now));
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
        let evaluated = evaluate(tenant, before.token_type, &body)?;
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
        Ok(Self { token, body, cvc, identity_changed, now })
    }

    /// A second copy for the answer to remember, said aloud.
    fn duplicate(&self) -> Self {
        Self {
            token: self.token.clone(),
            body: self.body.duplicate(),
            cvc: self.cvc,
            identity_changed: self.identity_changed,
            now: self.now,
        }
    }

    /// The answer shows no more than the caller saw before the token moved, or sees after.
    fn shown_by(&self, caller: &Caller, before: Transform) -> Result<Permit, Error> {
        let permit = caller.permit(Permission::TokenUpdate, &self.token.record)?;
        Ok(permit.weakened(before))
    }

    /// A token that was found is shown by the right to read it, not only by the right to update.
    fn written(
        self,
        shown_by: &Permit,
        audience: Audience<'_>,
        as_found: Option<Transform>,
    ) -> Result<Written, Error> {
        let token = match as_found {
            None => show(shown_by, &self.token, self.body, audience)?,
            Some(_) => reveal_found(shown_by, &self.token, audience)?,
        };
        let deduplicated = as_found.map(|_| DeduplicationBehavior::UpdateExisting);
        Ok(Written { token, deduplicated })
    }

    fn update(
        &self,
        caller: &Caller,
        patch: &TokenPatch,
        render: Option<Render<Updated>>,
    ) -> UpdateToken {
        let token = self.token.clone();
        let cvc = match (self.cvc, token.cvc) {
            (CvcEdit::Keep, _) => CvcChange::Keep,
            (CvcEdit::Set, None) => CvcChange::Remove,
            (CvcEdit::Set, Some(cvc)) => CvcChange::Replace(cvc),
        };
        let fingerprinted = token.record.fingerprint.is_some();
        let deduplicate = match deduplicate(caller, patch.deduplicate, fingerprinted) {
            Deduplicate::Yes if self.identity_changed => Deduplicate::Yes,
            Deduplicate::Yes | Deduplicate::No => Deduplicate::No,
        };
        let audit = AuditRecord::new(Operation::UpdateToken, caller, self.now);
        UpdateToken { token: token.record, cvc, deduplicate, audit, render }
    }

    /// The answer to remember, made inside the transaction.
    fn render(
        &self,
        vault: &Vault,
        shown_by: &Permit,
        remember: &Remember<Written>,
        as_found: Option<Transform>,
    ) -> Result<Render<Updated>, Error> {
        let (permit, bins) = (shown_by.again()?, Arc::clone(&vault.bins));
        let (change, now) = (self.duplicate(), self.now);
        let (render, digest) = (remember.render, remember.claim.digest);
        Ok(Box::new(move |updated| {
            let audience = Audience::Memory { bins: &bins };
            let written = match updated {
                Updated::Done => change.written(&permit, audience, as_found).ok()?,
                Updated::Duplicate(found) => {
                    let token = reveal_found(&permit, found, audience).ok()?;
                    Written { token, deduplicated: Some(DeduplicationBehavior::ReadExisting) }
                }
                Updated::Stale => return None,
            };
            remembered(&permit, digest, &written, render, now)
        }))
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
    token_type: TokenType,
    data: &mut Plain,
    patch: &Plain,
) -> Result<(bool, Option<Cvc>), Error> {
    json_patch::merge(data.expose_mut(), patch.expose());
    if data.expose().is_null() {
        return Err(FieldError::new("data", "is required").into());
    }
    token_type.check(data.expose_mut()).map_err(Error::Invalid)?;
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
