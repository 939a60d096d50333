//! Applies a patch to a token that was read: the token to write, and its view for the response.

mod data_change;

pub(crate) use self::data_change::{PatchCause, PatchContext};

use scrip_expression::value_cost;
use serde_json::Value;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    card::TokenType,
    disclosure::{
        Deduplicate, ExpressionSet, ExpressionTrust, KnownInputs, LifetimeChange, PartialPatch,
        PatchCoverage, check_expression_change, check_lifetime_change, check_no_added_rights,
        check_public_move, check_reader_update, drop_inherited_expressions,
        has_default_fingerprint_expression, hides_marked, may_digest_marked, patch_coverage,
        replaces_all_data,
    },
    equality::{
        Comparable, Comparison,
        evaluated_numbers::{EvaluatedNumbers, EvaluatedTexts},
    },
    events::{EventSource, payload::token::describe_token},
    policy::{AccessTarget, Caller, DeduplicationBehavior, Permit, has_reveal_right},
    reveal::{Audience, build_view, outline_view, reveal_existing},
    token::{
        CvcRecord, StoredToken, TokenBody, TokenModification, TokenPatch, TokenRecord, TokenView,
        WithheldOutputs, WrittenToken, body::record_work, patch_has_card_number,
    },
    token_batch::{CvcChange, TokenEvents, TokenWrite, UpdateToken},
    types::{
        Containers, DisclosureRule, EventType, Permission, Plaintext, Transform,
        id::{CardNumberVersion, TokenIntentId},
    },
    work_meter::BodyWork,
    writes::{
        evaluation::{Evaluation, EvaluationResult, FailureMode, HiddenPatch, MaskOrigin},
        patch::data_change::{CvcEdit, DataChange, patch_has_secret},
        pending_token::check_expiry,
    },
};

/// A patched token, ready to be written.
pub(crate) struct PatchedToken {
    pub(crate) token: StoredToken,
    body: TokenBody,
    cvc: CvcEdit,
    /// Whether the token may now be a duplicate of another token.
    pub(crate) identity_changed: bool,
    /// What the guessing budget counts.
    guess: Option<PatchGuess>,
    /// The number of index entries over the data, which are the first ones of the record.
    data_indexes: usize,
    /// Whether the caller wrote the whole data, and so knows what the fingerprint is over.
    pub(crate) knows_data: bool,
    reject_if_in_session_at: Option<Timestamp>,
    /// The work to open and seal the body, which a conflict makes useless.
    pub(crate) body_work: BodyWork,
}

/// The numbers that a patch submits: the data that the caller knows, and the evaluated texts over it.
struct PatchGuess {
    /// `None` if the caller knows all data of the token.
    data: Option<Plaintext>,
    texts: EvaluatedTexts,
}

impl PatchContext<'_> {
    /// Opens, patches, validates, evaluates and seals the token: a large one outside of the async
    /// workers.
    ///
    /// Errors: the patch is invalid, the caller may not make this change, or too many long requests
    /// are running.
    pub(crate) fn apply(
        self,
        stored: StoredToken,
        patch: &TokenPatch,
    ) -> Result<PatchedToken, Error> {
        let StoredToken { record, cvc } = stored;
        let (work, tenant) = (self.caller.work(), self.caller.tenant());
        let body_work = self.patch_work(&record, patch);
        TokenBody::open_with_work(work, body_work, tenant, &record, |body| {
            self.apply_to_body(&record, body, cvc, patch)
        })
    }

    fn apply_to_body(
        self,
        before: &TokenRecord,
        mut body: TokenBody,
        mut cvc_record: Option<CvcRecord>,
        patch: &TokenPatch,
    ) -> Result<PatchedToken, Error> {
        let Self { vault, caller, now, .. } = self;
        let tenant = caller.tenant();
        let token_type = before.token_type;
        check_reader_update(caller, before, body.typed_at())?;
        let containers = self.resolve_containers(before, patch)?;
        check_expression_change(caller, before, &body, patch)?;
        let expires_at = self.resolve_expiry(before, patch)?;

        let DataChange { cvc, failure_mode, known, replaces_data } =
            self.apply_data(before, &mut body, &mut cvc_record, patch)?;
        body.withhold_digests(token_type);
        body.is_marked |= caller.marks_fields();
        let writes_number = self.replaces_number(before, &body, patch);
        if writes_number && !has_reveal_right(caller, before) {
            body.number_version = Some(CardNumberVersion::random(vault.fill_random));
        }
        let patched_set = ExpressionSet::patched(caller, before, patch);
        if !patched_set.is_empty()
            && patched_set.covers_all_custom(caller.work(), token_type, &body)
        {
            body.expressions_writer = Some(caller.application());
        }
        let evaluated = self.evaluate(before, &body, patch, failure_mode, known.as_ref())?;
        // A counter of data that is not compared would tell the caller about it.
        let is_compared = !body.is_marked || may_digest_marked(caller, before);
        let is_counted = is_compared && is_guess(before, patch, &evaluated);
        let data = known.map(|it| it.data);
        let guess = is_counted.then_some(PatchGuess { data, texts: evaluated.texts });
        let knows_data = replaces_data || writes_number && body.fingerprint_expression.is_none();
        let identity_changed = evaluated.fingerprint != before.fingerprint
            || containers.sorted_text() != before.containers.sorted_text();

        let mut record = TokenRecord {
            fingerprint: evaluated.fingerprint,
            containers,
            modified: Some(TokenModification { by: caller.application(), at: now }),
            expires_at,
            revision: before.revision.saturating_add(1),
            indexes: evaluated.indexes,
            ..before.clone()
        };
        let trust = ExpressionTrust::after_patch(caller, before, &record, &body, patched_set);
        record.expressions = trust.to_provenance(caller, token_type, &body, vault.disclosure);
        record.body = body.seal(tenant, &record)?;
        let token = StoredToken { record, cvc: cvc_record };
        let must_reject_in_session = writes_number && caller.is_browser();
        let reject_if_in_session_at = must_reject_in_session.then(|| vault.clock.latest());
        Ok(PatchedToken {
            token,
            body,
            cvc,
            identity_changed,
            guess,
            data_indexes: evaluated.data_indexes,
            knows_data,
            reject_if_in_session_at,
            body_work: self.patch_work(before, patch),
        })
    }

    /// Evaluates the expressions, and withholds the digests of marked data.
    fn evaluate(
        self,
        before: &TokenRecord,
        body: &TokenBody,
        patch: &TokenPatch,
        failure_mode: FailureMode,
        known: Option<&KnownInputs>,
    ) -> Result<EvaluationResult, Error> {
        let Self { vault, caller, .. } = self;
        let token_type = before.token_type;
        let is_hidden = hides_marked(caller, body.is_marked);
        let failure_mode = if is_hidden { FailureMode::Hide } else { failure_mode };
        let hidden_patch = known.map(|known| HiddenPatch { before, known });
        let writes_mask = patch.mask.is_some() && has_reveal_right(caller, before);
        let mask_origin = if writes_mask { MaskOrigin::Request } else { MaskOrigin::Stored };
        let evaluation = Evaluation {
            mask_origin,
            hidden_patch,
            ..Evaluation::new(vault, caller, token_type, body, failure_mode)
        };
        let mut evaluated = evaluation.evaluate()?;
        if body.is_marked && !may_digest_marked(caller, before) {
            // Digests that a caller with a reveal right computed stay until the data changes.
            let is_kept = patch.data.is_none();
            let is_unchanged = evaluated.fingerprint == before.fingerprint;
            evaluated.fingerprint = evaluated.fingerprint.filter(|_| is_kept && is_unchanged);
            evaluated.retain_data_indexes(|it| is_kept && before.indexes.contains(it));
        }
        Ok(evaluated)
    }

    /// Checks that the caller may move the token and sees no more of it in the new containers.
    fn resolve_containers(
        self,
        before: &TokenRecord,
        patch: &TokenPatch,
    ) -> Result<Containers, Error> {
        let caller = self.caller;
        let Some(containers) = &patch.containers else { return Ok(before.containers.clone()) };
        let default_containers = || Containers::from(before.token_type.default_container());
        let containers = containers.clone().unwrap_or_else(default_containers);
        if containers.sorted_text() != before.containers.sorted_text() {
            let target = AccessTarget { containers: &containers, id: Some(&before.id) };
            caller.permit(Permission::TokenUpdate, target)?;
            check_public_move(caller, &before.containers, &containers)?;
            if self.vault.disclosure.applies(DisclosureRule::StrongerRight) {
                check_no_added_rights(caller, before.token_type, before.into(), target)?;
            }
        }
        Ok(containers)
    }

    fn resolve_expiry(
        self,
        before: &TokenRecord,
        patch: &TokenPatch,
    ) -> Result<Option<Timestamp>, Error> {
        let change = match (self.cause, patch.expires_at) {
            (PatchCause::Request, None) => return Ok(before.expires_at),
            (PatchCause::Request, Some(after)) => {
                LifetimeChange::Patch { before: before.expires_at, after }
            }
            (PatchCause::Deduplication { intent_expires_at, .. }, requested) => {
                let requested = requested.flatten();
                LifetimeChange::Deduplication {
                    before: before.expires_at,
                    requested,
                    intent_expires_at,
                }
            }
        };
        let expires_at = check_lifetime_change(self.caller, change)?;
        if patch.expires_at.is_some() {
            check_expiry(expires_at, self.now)?;
        }
        Ok(expires_at)
    }

    /// Whether 3-D Secure sessions must treat the number as changed. The numbers are not compared,
    /// because a session would then confirm the guess of a caller without a reveal right. A create
    /// request that found this token by the default fingerprint has the same number.
    fn replaces_number(self, before: &TokenRecord, body: &TokenBody, patch: &TokenPatch) -> bool {
        let (token_type, work) = (before.token_type, self.caller.work());
        let is_deduplication = matches!(self.cause, PatchCause::Deduplication { .. });
        patch_has_card_number(token_type, patch)
            && !(is_deduplication && has_default_fingerprint_expression(work, token_type, body))
    }

    /// Whether a payer typed the data of the patch into a hosted field.
    fn writes_typed_values(self) -> bool {
        let is_typed = match self.cause {
            PatchCause::Request => false,
            PatchCause::Deduplication { is_typed, .. } => is_typed,
        };
        is_typed || self.caller.carries_typed_values()
    }

    /// The work to open the body, and to seal it again with the values of the patch. Of a caller
    /// without a reveal right, also the work to find what the patch covers: every expression of the body
    /// is read, and the data is copied without what the caller does not know.
    fn patch_work(self, before: &TokenRecord, patch: &TokenPatch) -> BodyWork {
        let patched = patch.data.as_ref().map(Plaintext::expose).into_iter().chain(&patch.mask);
        let patch_bytes = patched.map(value_cost).fold(0, usize::saturating_add);
        let body_work = record_work(before);
        let work = body_work.and(body_work).and(BodyWork::for_bytes(patch_bytes));
        if has_reveal_right(self.caller, before) {
            work
        } else {
            work.and(body_work).and(body_work)
        }
    }

    /// The failure mode for data that the patch does not change.
    fn failure_mode(self, before: &TokenRecord) -> FailureMode {
        if has_reveal_right(self.caller, before) { FailureMode::Report } else { FailureMode::Hide }
    }

    /// Applies the disclosure rules for expressions when the patch changes data. Returns what the
    /// caller knows of the inputs, without a right to read them.
    fn apply_disclosure_rules(
        self,
        before: &TokenRecord,
        body: &mut TokenBody,
        data_before: &Plaintext,
        data: &Plaintext,
        patch: &TokenPatch,
    ) -> (FailureMode, Option<KnownInputs>) {
        let (token_type, rules) = (before.token_type, self.vault.disclosure);
        let (before_value, patch_value) = (data_before.expose(), data.expose());
        let coverage = patch_coverage(token_type, &[Vec::new()], patch_value, false);
        body.withheld_details &= !replaces_all_data(token_type, before_value, patch_value);
        // A create request that found this token has the same expressions, or they are trusted.
        let is_request = matches!(self.cause, PatchCause::Request);
        if is_request
            && patch_has_secret(token_type, data)
            && rules.applies(DisclosureRule::InheritedExpressions)
        {
            let patched = ExpressionSet::patched(self.caller, before, patch);
            drop_inherited_expressions(self.caller, before, body, patched);
        }
        let known = self.withhold_outputs(before, body, patch_value, patch);
        match coverage {
            PatchCoverage::Complete => (FailureMode::Report, known),
            PatchCoverage::Absent | PatchCoverage::Partial => (self.failure_mode(before), known),
        }
    }

    /// Withholds the digests and mask leaves over inputs of which the patch writes some and the caller
    /// does not know the others. `None` if the caller may read the token.
    fn withhold_outputs(
        self,
        before: &TokenRecord,
        body: &mut TokenBody,
        patched_data: &Value,
        patch: &TokenPatch,
    ) -> Option<KnownInputs> {
        if has_reveal_right(self.caller, before) {
            // New metadata says nothing about data that another caller may have patched in part.
            if patch.data.is_some() {
                body.withheld = WithheldOutputs::default();
            }
            return None;
        }
        let partial = PartialPatch {
            token_type: before.token_type,
            patch: patched_data,
            writes_metadata: patch.metadata.is_some(),
            rules: self.vault.disclosure,
            work: self.caller.work(),
        };
        Some(partial.withhold(body))
    }
}

/// Hides the fingerprint in an answer without details if the caller does not know the data: another
/// caller may compare it. Every answer to an update uses this function.
pub(crate) fn hide_unknown_fingerprint(view: TokenView, knows_data: bool) -> TokenView {
    let is_shown = knows_data || view.detail.is_some();
    TokenView { fingerprint: view.fingerprint.filter(|_| is_shown), ..view }
}

/// Whether the patch contains a number, or changes a digest that depends on the number. A patch of
/// only metadata or expiry reveals nothing about numbers.
fn is_guess(before: &TokenRecord, patch: &TokenPatch, evaluated: &EvaluationResult) -> bool {
    let number_properties = ["number", "account_number", "routing_number"];
    let has_number = |data: &Plaintext| match data.expose().as_object() {
        Some(members) if before.token_type != TokenType::Token => {
            number_properties.iter().any(|it| members.contains_key(*it))
        }
        Some(_) | None => true,
    };
    let mut data_indexes = evaluated.indexes.iter().take(evaluated.data_indexes);
    patch.data.as_ref().is_some_and(has_number)
        || evaluated.fingerprint != before.fingerprint
        || data_indexes.any(|it| !before.indexes.contains(it))
}

impl PatchedToken {
    /// Counts the numbers of the token before the write. If a budget is exhausted, the token has no
    /// fingerprint. Without a comparison, the token has no duplicate.
    ///
    /// Errors: the counters cannot be read.
    pub(crate) async fn count_numbers(
        &mut self,
        vault: &Vault,
        caller: &Caller,
    ) -> Result<Option<Comparison>, Error> {
        let Some(PatchGuess { data, texts }) = self.guess.take() else {
            return vault.may_compare(caller, Comparable::MovedToken).await;
        };
        let token_type = self.token.record.token_type;
        let data = data.as_ref().unwrap_or(&self.body.data);
        let evaluated =
            EvaluatedNumbers { token_type, data, texts: &texts, is_known: true, tokens: 1 };
        let comparison = vault.may_compare(caller, Comparable::Token(evaluated)).await?;
        if comparison.is_none() {
            self.token.record.fingerprint = None;
            self.token.record.drop_data_indexes(self.data_indexes);
            let (record, body) = (&self.token.record, &self.body);
            let seal = || body.seal(caller.tenant(), record);
            self.token.record.body = caller.work().run_opening(record_work(record), seal)??;
        }
        Ok(comparison)
    }

    /// The permit for the response. It shows no more than the caller could see before the move and
    /// can see after it.
    pub(crate) fn read_permit(&self, caller: &Caller, before: Transform) -> Result<Permit, Error> {
        let permit = caller.permit(Permission::TokenUpdate, &self.token.record)?;
        Ok(permit.limit_transform(before))
    }

    /// The token for the response. A token that was found by deduplication also needs the right to
    /// read, not only the right to update.
    pub(crate) fn written_token(
        &self,
        read_permit: &Permit,
        deduplicated: Option<DeduplicationBehavior>,
        audience: Audience<'_>,
    ) -> Result<WrittenToken, Error> {
        let token = match deduplicated {
            None => self.updated_view(read_permit, audience)?,
            Some(_) => reveal_existing(read_permit, &self.token, audience)?,
        };
        Ok(WrittenToken { token, deduplicated })
    }

    /// Whether the caller may compare the token with another one, which the answer then names: it knows
    /// what the fingerprint is over, or may read it.
    pub(crate) fn may_deduplicate(&self, caller: &Caller) -> bool {
        self.knows_data || caller.transform(Permission::TokenRead, &self.token.record).is_some()
    }

    /// The view of the token after an update. A caller without the right to read gets an outline,
    /// because data and mask may be from other callers.
    fn updated_view(
        &self,
        read_permit: &Permit,
        audience: Audience<'_>,
    ) -> Result<TokenView, Error> {
        let (caller, record) = (read_permit.caller(), &self.token.record);
        if caller.transform(Permission::TokenRead, record).is_some() {
            let build = || build_view(read_permit, &self.token, self.body.duplicate(), audience);
            let mut view = caller.work().run_opening(record_work(record), build)??;
            view.shown_by.required.push(Permission::TokenRead);
            return Ok(view);
        }
        let view = outline_view(caller, &self.token, self.body.is_marked);
        let view = TokenView { expires_at: record.expires_at, ..view };
        Ok(hide_unknown_fingerprint(view, self.knows_data))
    }

    pub(crate) fn write(
        &self,
        permit: Permit,
        intent: Option<TokenIntentId>,
        deduplicate: Deduplicate,
        audit: AuditRecord,
        fill_random: fn(&mut [u8]),
    ) -> TokenWrite {
        let written = EventSource::new(permit.tenant(), &audit, fill_random)
            .raise(EventType::TokenUpdated, || describe_token(&self.token.record, &self.body));
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
            reject_if_in_session_at: self.reject_if_in_session_at,
            audit,
            events: TokenEvents { written, fill_random },
        })
    }
}
