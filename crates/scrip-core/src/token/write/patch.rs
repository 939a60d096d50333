//! A patch applied to a token that was read: what would be written back, and what is shown of it.

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    id::{NumberVersion, TokenIntentId},
    policy::{
        Caller, DeduplicationBehavior, Permission, Permit, Subject, TenantKind, Transform,
        guessing_budget::{EvaluatedNumbers, Fingerprinting, numbers::EvaluatedTexts},
    },
    threeds::names_number,
    token::{
        Body, Containers, Cvc, CvcChange, Deduplicate, Modified, Plain, StoredToken, TokenPatch,
        TokenRecord, TokenType, TokenView, TokenWrite, UpdateToken, Withheld, Written,
        cvc::{seal_cvc, take_cvc},
        disclosure::{
            ExpressionSet, ExpressionTrust, LifeChange, Named, PartialPatch, Rule,
            check_expression_change, check_gain, check_life, check_public_move,
            drop_inherited_expressions, effective_mask, has_own_fingerprint_expression,
            has_reveal_right, named_inputs,
        },
        expression::evaluation::{Evaluated, Evaluation, Failures, names_secret},
        reveal::{Audience, outline, reveal_found, show},
        write::draft::check_expiry,
    },
};

/// A patched token, ready to be written.
pub(crate) struct Change {
    pub(crate) token: StoredToken,
    body: Body,
    cvc: CvcEdit,
    /// Whether it is a candidate for being somebody else's duplicate.
    pub(crate) identity_changed: bool,
    /// What its expressions gave, where the guessing budget counts it.
    texts: Option<EvaluatedTexts>,
    unless_named: Option<Timestamp>,
}

#[derive(Clone, Copy)]
enum CvcEdit {
    Keep,
    Set,
}

/// Who patches, and how it came to that.
#[derive(Clone, Copy)]
pub(crate) struct Patching<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) caller: &'a Caller,
    pub(crate) now: Timestamp,
    pub(crate) cause: PatchCause,
}

#[derive(Clone, Copy)]
pub(crate) enum PatchCause {
    /// A PATCH request.
    Request,
    /// A create that found this token, perhaps by converting an intent that ends then.
    Deduplication { intent_ends: Option<Timestamp> },
}

impl Patching<'_> {
    pub(crate) fn apply(self, stored: StoredToken, patch: &TokenPatch) -> Result<Change, Error> {
        let Self { vault, caller, now, .. } = self;
        let tenant = caller.tenant();
        let StoredToken { record: before, cvc: mut kept_cvc } = stored;
        let token_type = before.token_type;
        let mut body = Body::open(tenant, &before)?;
        let containers = self.moved(&before, patch)?;
        check_expression_change(caller, &before, &body, patch)?;
        let expires_at = self.life(&before, patch)?;

        let mut cvc = CvcEdit::Keep;
        let mut failures = self.failures(&before);
        if let Some(data) = &patch.data {
            let data_before = body.data.duplicate();
            let (patched, code) = patch_data(token_type, tenant.kind, &mut body.data, data)?;
            if patched {
                cvc = CvcEdit::Set;
                let seal = |it: Cvc| seal_cvc(&vault.epochs, caller, &it, &before.id, now);
                kept_cvc = code.map(seal).transpose()?;
            }
            // The id stays, so a number that it happens to hold cannot become this card's.
            // A patch that leaves the number alone must not ask about it.
            if names_own_secret(token_type, &data_before, data)
                && names_secret(&before.id, token_type, &body)
            {
                let rule = "must not be a number that the id contains";
                return Err(FieldError::new("data", rule).into());
            }
            patch_attributes(token_type, &mut body, patch)?;
            failures = self.disclose(&before, &mut body, &data_before, patch);
        } else {
            patch_attributes(token_type, &mut body, patch)?;
        }
        let writes_number = self.writes_number(&before, &body, patch);
        if writes_number && !has_reveal_right(caller, &before) {
            body.number_version = Some(NumberVersion::random(vault.chance));
        }
        let patched = ExpressionSet::patched(patch);
        if has_reveal_right(caller, &before)
            && !patched.is_empty()
            && patched.leaves_none(caller.work(), token_type, &body)
        {
            body.expressions_by = Some(caller.application());
        }
        let evaluation = Evaluation { caller, token_type, body: &body, vault, failures };
        let evaluated = evaluation.evaluate()?;
        let texts = is_guess(&before, patch, &evaluated).then_some(evaluated.texts);
        let identity_changed = evaluated.fingerprint != before.fingerprint
            || containers.set_text() != before.containers.set_text();

        let mut record = TokenRecord {
            fingerprint: evaluated.fingerprint,
            containers,
            modified: Some(Modified { by: caller.application(), at: now }),
            expires_at,
            revision: before.revision.saturating_add(1),
            indexes: evaluated.indexes,
            ..before.clone()
        };
        let trust = ExpressionTrust::after_patch(caller, &before, &record, &body, patched);
        record.expressions = trust.marks(caller, token_type, &body, vault.disclosure);
        record.body = body.seal(tenant, &record)?;
        let token = StoredToken { record, cvc: kept_cvc };
        let unless_named = writes_number && caller.is_browser();
        let unless_named = unless_named.then(|| vault.clock.latest());
        Ok(Change { token, body, cvc, identity_changed, texts, unless_named })
    }

    /// Where the token goes, which must be allowed and must not show the caller more of it.
    fn moved(self, before: &TokenRecord, patch: &TokenPatch) -> Result<Containers, Error> {
        let caller = self.caller;
        let Some(containers) = &patch.containers else { return Ok(before.containers.clone()) };
        let own = || Containers::from(before.token_type.default_container());
        let containers = containers.clone().unwrap_or_else(own);
        if containers.set_text() != before.containers.set_text() {
            let there = Subject { containers: &containers, id: Some(&before.id) };
            caller.permit(Permission::TokenUpdate, there)?;
            check_public_move(caller, &before.containers, &containers)?;
            if self.vault.disclosure.applies(Rule::StrongerRight) {
                check_gain(caller, before.token_type, before.into(), there)?;
            }
        }
        Ok(containers)
    }

    fn life(self, before: &TokenRecord, patch: &TokenPatch) -> Result<Option<Timestamp>, Error> {
        let life = match (self.cause, patch.expires_at) {
            (PatchCause::Request, None) => return Ok(before.expires_at),
            (PatchCause::Request, Some(after)) => {
                LifeChange::Patch { before: before.expires_at, after }
            }
            (PatchCause::Deduplication { intent_ends }, asked) => {
                let asked = asked.flatten();
                LifeChange::Deduplication { before: before.expires_at, asked, intent_ends }
            }
        };
        let ends = check_life(self.caller, life)?;
        if patch.expires_at.is_some() {
            check_expiry(ends, self.now)?;
        }
        Ok(ends)
    }

    /// Whether 3-D Secure sessions have to take the number for another one. The numbers are not
    /// compared: a session would tell a caller without a reveal right whether its guess is right. A
    /// create that found this token by the type's own fingerprint brings the same number.
    fn writes_number(self, before: &TokenRecord, body: &Body, patch: &TokenPatch) -> bool {
        let (token_type, work) = (before.token_type, self.caller.work());
        let is_found = matches!(self.cause, PatchCause::Deduplication { .. });
        names_number(token_type, patch)
            && !(is_found && has_own_fingerprint_expression(work, token_type, body))
    }

    /// Of data that the patch leaves as it is.
    fn failures(self, before: &TokenRecord) -> Failures {
        if has_reveal_right(self.caller, before) { Failures::Report } else { Failures::Hide }
    }

    /// What follows for the expressions when the patch changes data.
    fn disclose(
        self,
        before: &TokenRecord,
        body: &mut Body,
        data_before: &Plain,
        patch: &TokenPatch,
    ) -> Failures {
        let Some(data) = &patch.data else { return self.failures(before) };
        let (token_type, rules) = (before.token_type, self.vault.disclosure);
        let (from, to) = (data_before.expose(), data.expose());
        // A create that found this token has the same expressions, or they are trusted.
        let asked = matches!(self.cause, PatchCause::Request);
        if asked
            && names_own_secret(token_type, data_before, data)
            && rules.applies(Rule::InheritedExpressions)
        {
            let patched = ExpressionSet::patched(patch);
            drop_inherited_expressions(self.caller, before, body, patched);
        }
        if has_reveal_right(self.caller, before) {
            body.withheld = Withheld::default();
            return Failures::Report;
        }
        let work = self.caller.work();
        PartialPatch { token_type, before: from, patch: to, rules, work }.withhold(body);
        match named_inputs(token_type, &[Vec::new()], from, to) {
            Named::All => Failures::Report,
            Named::Nothing | Named::Some => Failures::Hide,
        }
    }
}

/// Whether a patch names the secret of the type, whatever value it gives.
fn names_own_secret(token_type: TokenType, before: &Plain, patch: &Plain) -> bool {
    let secret: Vec<&str> = token_type.secret_property().into_iter().collect();
    named_inputs(token_type, &[secret], before.expose(), patch.expose()) != Named::Nothing
}

/// Whether the patch brings a number, or changes what an equal number would have the same of. What
/// only changes metadata or an expiry tells nothing about numbers.
fn is_guess(before: &TokenRecord, patch: &TokenPatch, evaluated: &Evaluated) -> bool {
    let own = ["number", "account_number", "routing_number"];
    let brings = |data: &Plain| match data.expose().as_object() {
        Some(members) if before.token_type != TokenType::Token => {
            own.iter().any(|it| members.contains_key(*it))
        }
        Some(_) | None => true,
    };
    let mut of_data = evaluated.indexes.iter().take(evaluated.data_indexes);
    patch.data.as_ref().is_some_and(brings)
        || evaluated.fingerprint != before.fingerprint
        || of_data.any(|it| !before.indexes.contains(it))
}

impl Change {
    /// Before it is written: when a budget is spent, it has no fingerprint and no duplicate.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub(crate) async fn spend_guesses(
        &mut self,
        vault: &Vault,
        caller: &Caller,
    ) -> Result<(), Error> {
        let Some(texts) = self.texts.take() else { return Ok(()) };
        let record = &self.token.record;
        let (token_type, data) = (record.token_type, &self.body.data);
        let evaluated = EvaluatedNumbers { token_type, data, texts: &texts };
        if vault.count_numbers(caller, evaluated).await? == Fingerprinting::On {
            return Ok(());
        }
        self.token.record.fingerprint = None;
        self.token.record.body = self.body.seal(caller.tenant(), &self.token.record)?;
        Ok(())
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
            None => self.shown(shown_by, audience)?,
            Some(_) => reveal_found(shown_by, &self.token, audience)?,
        };
        Ok(Written { token, deduplicated })
    }

    /// A caller without the right to read gets an outline: the data and its mask are another's.
    fn shown(&self, shown_by: &Permit, audience: Audience<'_>) -> Result<TokenView, Error> {
        let (caller, record) = (shown_by.caller(), &self.token.record);
        if caller.transform(Permission::TokenRead, record).is_some() {
            return show(shown_by, &self.token, self.body.duplicate(), audience);
        }
        Ok(TokenView { expires_at: record.expires_at, ..outline(caller, &self.token) })
    }

    pub(crate) fn write(
        &self,
        permit: Permit,
        intent: Option<TokenIntentId>,
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
            unless_named: self.unless_named,
            audit,
        })
    }
}

/// Whether the patch spoke of the cvc, and the code it gave.
fn patch_data(
    token_type: TokenType,
    kind: TenantKind,
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
