//! A token that was asked for, complete but for the store's word: checked, evaluated, named, sealed.

use scrip_seal::{Fingerprint, Sealed};

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    id::{CardNumberVersion, TokenId},
    policy::{
        Caller,
        DeduplicationBehavior::{ReadExisting, UpdateExisting},
        Permission, Permit, Transform,
        guessing_budget::{EvaluatedNumbers, FingerprintDisclosure, numbers::EvaluatedTexts},
    },
    token::{
        Containers, Cvc, Deduplicate, ExpressionProvenance, InsertToken, NewToken, Plaintext,
        StoredToken, TokenBody, TokenPatch, TokenRecord, TokenType, TokenView, TokenWrite,
        WithheldDigests, WorkMeter,
        cvc::{load_cvc_key, seal_cvc, take_cvc, with_cvc},
        disclosure::{ExpressionTrust, check_conversion, has_reveal_right},
        expression::evaluation::{
            Evaluation, EvaluationResult, FailureMode, NewId, evaluate_token_id,
        },
        reveal::{Audience, build_view},
        write::conversion::{SourceIntent, TokenDataSource},
    },
};

pub(crate) struct PendingToken {
    pub(crate) token: StoredToken,
    pub(crate) permit: Permit,
    /// The intent that it is made of.
    pub(crate) intent: Option<SourceIntent>,
    /// Whether one that is there already may take its place.
    pub(crate) deduplicate: Deduplicate,
    /// What it would change of that one, where the tenant has it updated.
    pub(crate) patch: Option<TokenPatch>,
    body: TokenBody,
    cvc: Option<Cvc>,
    id_assignment: IdAssignment,
    /// What its expressions gave, until the guessing budget has counted it.
    texts: EvaluatedTexts,
}

/// What can be done when the id is taken.
enum IdAssignment {
    /// It was asked for: nothing.
    Fixed,
    /// Another one can be drawn, so many times. A short alias has only so many values.
    Alias { source: String, draws_left: usize },
}

/// How often an alias is drawn before the token gets an id like any other.
const ALIAS_DRAWS: usize = 8;

impl PendingToken {
    /// # Errors
    /// The request breaks a rule, or no rule lets the caller create the token.
    pub(crate) fn new(
        vault: &Vault,
        caller: &Caller,
        mut new: NewToken,
        source: TokenDataSource,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let token_type = source.token_type;
        check_expiry(new.expires_at, now)?;
        let assumed = || Containers::from(token_type.default_container());
        let containers = new.containers.take().unwrap_or_else(assumed);
        let permit = caller.permit(Permission::TokenCreate, &containers)?;
        check_conversion(caller, &new, &source, &containers, vault.disclosure)?;
        let knows_data = source.intent.is_none() || has_reveal_right(caller, &containers);
        let TokenDataSource { mut data, intent, .. } = source;
        // Data that the request did not bring is shown by the right to read it only.
        let permit = if intent.is_some() { permit.limit_to_read() } else { permit };
        token_type.check(data.expose_mut(), caller.tenant().kind).map_err(Error::Invalid)?;

        let cvc = take_cvc(token_type, &mut data);
        // A conversion updates what is there already, whatever the tenant has for other creates.
        let patch = match (&intent, caller.tenant().settings.token_deduplication_behavior) {
            (None, ReadExisting) => None,
            (None, UpdateExisting) | (Some(_), _) => {
                Some(existing_patch(&new, token_type, &data, cvc.as_ref()))
            }
        };
        let body = TokenBody {
            data,
            mask: new.mask.take().and_then(|it| token_type.custom_mask(it)),
            metadata: new.metadata.take(),
            search_indexes: new.search_indexes.take(),
            fingerprint_expression: new.fingerprint_expression.take(),
            expressions_writer: Some(caller.application()),
            withheld: WithheldDigests::default(),
            // Also under the id of a token that was deleted: sessions of that one stay with it.
            number_version: (token_type == TokenType::Card)
                .then(|| CardNumberVersion::random(vault.fill_random)),
        };
        let failure_mode = if knows_data { FailureMode::Report } else { FailureMode::Hide };
        let evaluation = Evaluation { caller, token_type, body: &body, vault, failure_mode };
        let EvaluationResult { fingerprint, indexes, texts, .. } = evaluation.evaluate()?;
        let chooses_id = new.id.is_some();
        let (id, naming) = match new.id.take() {
            None => (TokenId::random(vault.fill_random), IdAssignment::Fixed),
            // A caller that may not know the number is not told whether an id holds it.
            Some(source) if !knows_data => (TokenId::parse(&source)?, IdAssignment::Fixed),
            Some(source) => {
                resolve_id(caller.work(), source, token_type, &body, vault.fill_random)?
            }
        };
        let mut record = TokenRecord {
            id,
            token_type,
            fingerprint,
            expressions: ExpressionProvenance::default(),
            containers,
            created_by: caller.application(),
            created_at: now,
            modified: None,
            expires_at: new.expires_at,
            revision: first_revision(vault.fill_random),
            indexes,
            body: Sealed::from_stored(Vec::new()),
        };
        let trust = ExpressionTrust::for_created_token(caller, &record, chooses_id);
        record.expressions = trust.to_provenance(caller, token_type, &body, vault.disclosure);
        let token = StoredToken { record, cvc: None };
        let deduplicate = resolve_deduplication(caller, new.deduplicate, fingerprint.is_some());
        let mut draft = Self {
            token,
            permit,
            intent,
            deduplicate,
            patch,
            body,
            cvc,
            id_assignment: naming,
            texts,
        };
        draft.seal()?;
        Ok(draft)
    }

    /// Before it is written: when a budget is spent, it has no fingerprint and no duplicate.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub(crate) async fn charge_guess_budget(&mut self, vault: &Vault) -> Result<(), Error> {
        let (caller, record) = (self.permit.caller(), &self.token.record);
        let texts = std::mem::take(&mut self.texts);
        let (token_type, data) = (record.token_type, &self.body.data);
        let evaluated = EvaluatedNumbers { token_type, data, texts: &texts };
        if vault.count_numbers(caller, evaluated).await? == FingerprintDisclosure::Allowed {
            return Ok(());
        }
        self.token.record.fingerprint = None;
        self.deduplicate = Deduplicate::No;
        self.patch = None;
        self.seal()
    }

    /// Under the id that it has now.
    fn seal(&mut self) -> Result<(), Error> {
        let record = &mut self.token.record;
        record.body = self.body.seal(self.permit.caller().tenant(), record)?;
        Ok(())
    }

    /// The same for the code. Apart, and once all else is known to be good, since its key may have
    /// to be asked for.
    ///
    /// # Errors
    /// It cannot be asked for.
    pub(crate) async fn load_key_and_seal_cvc(&mut self, vault: &Vault) -> Result<(), Error> {
        if self.cvc.is_some() {
            load_cvc_key(&vault.epoch_keys, self.permit.caller(), self.token.record.created_at)
                .await?;
        }
        self.reseal_cvc(vault)
    }

    /// With a key that is at hand.
    fn reseal_cvc(&mut self, vault: &Vault) -> Result<(), Error> {
        let (caller, record) = (self.permit.caller(), &self.token.record);
        let seal = |it| seal_cvc(&vault.epoch_keys, caller, it, &record.id, record.created_at);
        self.token.cvc = self.cvc.as_ref().map(seal).transpose()?;
        Ok(())
    }

    /// Another id, when this one is taken.
    ///
    /// # Errors
    /// It has to be this one.
    pub(crate) fn assign_new_id(&mut self, vault: &Vault) -> Result<(), Error> {
        let IdAssignment::Alias { source, draws_left } = &mut self.id_assignment else {
            return Err(Error::Conflict { reason: "a token with this id exists" });
        };
        let record = &mut self.token.record;
        if let Some(left) = draws_left.checked_sub(1) {
            *draws_left = left;
            let (work, token_type) = (self.permit.caller().work(), record.token_type);
            record.id =
                evaluate_token_id(work, source, token_type, &self.body, vault.fill_random)?.id;
        } else {
            record.id = TokenId::random(vault.fill_random);
            self.id_assignment = IdAssignment::Fixed;
        }
        self.seal()?;
        self.reseal_cvc(vault)
    }

    pub(crate) fn has_alias_id(&self) -> bool {
        matches!(self.id_assignment, IdAssignment::Alias { .. })
    }

    /// What a duplicate has the same of.
    pub(crate) fn duplicate_identity(&self) -> Option<(TokenType, Fingerprint, String)> {
        let record = &self.token.record;
        let fingerprint = record.fingerprint.filter(|_| self.deduplicate != Deduplicate::No)?;
        Some((record.token_type, fingerprint, record.containers.sorted_text()))
    }

    /// # Errors
    /// As for [`Caller::permit`].
    pub(crate) fn write(
        &self,
        deduplicate: Deduplicate,
        audit: AuditRecord,
    ) -> Result<TokenWrite, Error> {
        Ok(TokenWrite::Insert(InsertToken {
            permit: self.permit.recheck()?,
            token: self.token.clone(),
            intent: self.intent.as_ref().map(|it| it.id),
            deduplicate,
            audit,
        }))
    }

    /// What an answer remembers of it when it is new.
    pub(crate) fn stored_response_view(&self, audience: Audience<'_>) -> Result<TokenView, Error> {
        build_view(&self.permit, &self.token, self.body.duplicate(), audience)
    }

    /// What its caller is told when it is new. The code is at hand, and need not be opened again.
    pub(crate) fn into_view(mut self, audience: Audience<'_>) -> Result<TokenView, Error> {
        self.token.cvc = None;
        let mut view = build_view(&self.permit, &self.token, self.body, audience)?;
        if let Some(detail) = &mut view.detail
            && self.permit.transform() == Transform::Reveal
        {
            detail.visible.cvc = self.cvc;
        }
        Ok(view)
    }
}

fn resolve_id(
    work: &WorkMeter,
    source: String,
    token_type: TokenType,
    body: &TokenBody,
    fill_random: fn(&mut [u8]),
) -> Result<(TokenId, IdAssignment), Error> {
    let NewId { id, is_alias } = evaluate_token_id(work, &source, token_type, body, fill_random)?;
    if !is_alias {
        return Ok((id, IdAssignment::Fixed));
    }
    Ok((id, IdAssignment::Alias { source, draws_left: ALIAS_DRAWS.saturating_sub(1) }))
}

/// By chance, so that whoever read a token that was since deleted does not take a new one under the
/// same id for it.
fn first_revision(fill_random: fn(&mut [u8])) -> i64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    // Positive, with room to count.
    i64::from_be_bytes(bytes).unsigned_abs().checked_shr(2).unwrap_or(0).cast_signed()
}

/// What the request would change of a token that is already there.
fn existing_patch(
    new: &NewToken,
    token_type: TokenType,
    data: &Plaintext,
    cvc: Option<&Cvc>,
) -> TokenPatch {
    let data = with_cvc(data.duplicate(), cvc);
    // Open data with the fingerprint of the whole is the same data; merging it would drop nulls.
    let same = token_type == TokenType::Token && new.fingerprint_expression.is_none();
    TokenPatch {
        data: (!same).then_some(data),
        metadata: new.metadata.as_ref().map(|it| serde_json::json!(it)),
        deduplicate: Some(false),
        expires_at: new.expires_at.map(Some),
        // A token that may be updated has the same expressions, or ones that stay as they are.
        ..TokenPatch::default()
    }
}

pub(crate) fn check_expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Error> {
    if expires_at.is_some_and(|it| it <= now) {
        return Err(FieldError::new("expires_at", "must be in the future").into());
    }
    Ok(())
}

pub(crate) fn resolve_deduplication(
    caller: &Caller,
    requested: Option<bool>,
    fingerprinted: bool,
) -> Deduplicate {
    let wanted = requested.unwrap_or(caller.tenant().settings.deduplicate_tokens);
    if wanted && fingerprinted { Deduplicate::Yes } else { Deduplicate::No }
}
