//! A new token before the write: its data is loaded, checked, evaluated and sealed, and it has an id.

use scrip_expression::is_expression;
use scrip_seal::Sealed;
use zeroize::Zeroizing;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    card::TokenType,
    disclosure::{
        DataKnowledge, Deduplicate, ExpressionTrust, TokenDataSource, check_conversion, check_data,
        hides_marked, marks_encrypted, may_digest_marked, misplaces_field_values,
    },
    equality::{
        Comparable,
        evaluated_numbers::{EvaluatedNumbers, EvaluatedTexts},
    },
    events::{EventSource, payload::token::describe_token},
    policy::{Caller, DeduplicationBehavior::UpdateExisting, Permit},
    reveal::{Audience, build_view},
    token::{
        CountedPart, Cvc, DataOrigin, DroppedAttributes, ExpressionProvenance, NewToken,
        SourceIntent, StoredToken, TokenBody, TokenPatch, TokenRecord, TokenSource, TokenView,
        body::{load_cvc_key, seal_cvc, take_cvc, with_cvc},
        intent::IntentBody,
    },
    token_batch::{InsertToken, TokenEvents, TokenWrite},
    types::{
        Containers, EventType, Permission, Plaintext, Transform,
        id::{CardNumberVersion, TokenId, TokenIntentId},
    },
    work_meter::WorkMeter,
    writes::{
        duplicate_identity::{DuplicateIdentity, requests_deduplication, resolve_deduplication},
        evaluation::{Evaluation, EvaluationResult, FailureMode, NewId, evaluate_token_id},
    },
};

/// A new token that is ready to be written.
pub(crate) struct PendingToken {
    pub(crate) token: StoredToken,
    pub(crate) permit: Permit,
    /// The intent that becomes this token.
    pub(crate) intent: Option<SourceIntent>,
    /// Whether an existing token may be used instead: known when the numbers are counted.
    pub(crate) deduplicate: Deduplicate,
    is_deduplication_requested: Option<bool>,
    /// The changes to an existing token, if it is updated instead.
    pub(crate) patch: Option<TokenPatch>,
    body: TokenBody,
    cvc: Option<Cvc>,
    id_assignment: IdAssignment,
    /// The evaluated texts, until the guessing budget has counted them.
    texts: EvaluatedTexts,
    /// The number of index entries over the data, which are the first ones of the record.
    data_indexes: usize,
    /// Whether the write may compare the data. A counter of data that is not compared would tell the
    /// caller about it.
    is_compared: bool,
    counted_part: CountedPart,
    /// Empty for data that the caller did not send: their number would disclose something about it.
    dropped_attributes: DroppedAttributes,
}

/// Takes the data of a new token from the request or from the named intent, or decrypts it. The CVC of
/// the intent is not included.
/// Errors: there is no such live intent, or the data cannot be decrypted.
pub(crate) async fn load_data_source(
    vault: &Vault,
    caller: &Caller,
    new: &mut NewToken,
) -> Result<TokenDataSource, Error> {
    let source = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    let now = vault.clock.now();
    let typed_at = caller.carries_typed_values().then_some(now);
    let (token_type, data, origin, places, typed_at) = match source {
        TokenSource::Data { token_type, data } => {
            (token_type, data, DataOrigin::Request, Vec::new(), typed_at)
        }
        TokenSource::Encrypted(encrypted) => {
            let data = encrypted.decrypt(caller, vault.clock.latest())?;
            let token_type = encrypted.token_type;
            let places = vec![Containers::from(token_type.default_container()).into()];
            (token_type, data, DataOrigin::Encrypted, places, Some(now))
        }
        TokenSource::Collected(collected) => {
            let (token_type, data, origin, places) = collected.open();
            (token_type, data, origin, places, Some(now))
        }
        TokenSource::Intent(text) => return load_intent_data(vault, caller, &text, typed_at).await,
    };
    let is_marked = caller.marks_fields()
        || match &origin {
            // Of a request with several tokens, the vault does not know which one has the value.
            DataOrigin::Request => {
                caller.field_kinds().has_values()
                    && misplaces_field_values(caller, token_type, data.expose())
            }
            DataOrigin::Encrypted => marks_encrypted(caller, token_type),
            DataOrigin::Intent(_) | DataOrigin::Hidden => false,
        };
    let is_known = origin.is_request() && !hides_marked(caller, is_marked);
    Ok(TokenDataSource { token_type, data, origin, is_known, is_marked, typed_at, places })
}

async fn load_intent_data(
    vault: &Vault,
    caller: &Caller,
    id: &str,
    typed_at: Option<Timestamp>,
) -> Result<TokenDataSource, Error> {
    let id = TokenIntentId::parse(id).ok_or_else(unknown_intent_error)?;
    let lookup = caller.permit_lookup(Permission::TokenCreate)?;
    let stored = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = stored.ok_or_else(unknown_intent_error)?.record;
    let body = IntentBody::open(caller.work(), caller.tenant(), &record)?;
    let intent = SourceIntent {
        id,
        containers: record.containers,
        created_by: record.created_by,
        expires_at: record.expires_at,
        is_counted: record.fingerprint.is_some(),
    };
    let places = vec![intent.containers.clone().into()];
    let origin = DataOrigin::Intent(intent);
    let (is_known, is_marked) = (false, caller.marks_fields() || body.is_marked);
    let (token_type, data) = (record.token_type, body.data);
    let typed_at = typed_at.or_else(|| body.is_typed.then_some(record.created_at));
    Ok(TokenDataSource { token_type, data, origin, is_known, is_marked, typed_at, places })
}

pub(crate) fn unknown_intent_error() -> Error {
    FieldError::new("token_intent_id", "is not a live token intent of this tenant").into()
}

/// A new token whose numbers were counted.
pub(crate) struct CountedToken(pub(super) PendingToken);

pub(crate) fn taken_id_error() -> Error {
    Error::Conflict { reason: "a token with this id exists" }
}

/// The reaction to an id that is taken.
enum IdAssignment {
    /// The request named the id: report the conflict.
    Fixed,
    /// Generate another alias, at most `draws_remaining` times. Short aliases have few possible
    /// values.
    Alias { source: String, draws_remaining: usize },
}

/// Random, also under the id of a deleted token: sessions of the deleted token stay bound to it.
fn draw_number_version(vault: &Vault, token_type: TokenType) -> Option<CardNumberVersion> {
    (token_type == TokenType::Card).then(|| CardNumberVersion::random(vault.fill_random))
}

fn take_containers(new: &mut NewToken, token_type: TokenType) -> Containers {
    new.containers.take().unwrap_or_else(|| token_type.default_container().into())
}

/// The number of aliases to try before the token gets a random id.
const ALIAS_DRAWS: usize = 8;

impl PendingToken {
    /// Errors: the request is invalid, or no rule allows the caller to create the token.
    pub(crate) fn new(
        vault: &Vault,
        caller: &Caller,
        mut new: NewToken,
        source: TokenDataSource,
        now: Timestamp,
    ) -> Result<Self, Error> {
        check_expiry(new.expires_at, now)?;
        let containers = take_containers(&mut new, source.token_type);
        let permit = caller.permit(Permission::TokenCreate, &containers)?;
        let knowledge = match source.is_known && !caller.sends_field_values() {
            true => DataKnowledge::Known,
            false => check_conversion(caller, &new, &source, &containers, vault.disclosure)?,
        };
        let TokenDataSource { token_type, mut data, origin, is_marked, typed_at, .. } = source;
        let (withheld_details, intent) = (origin.is_hidden(), origin.into_intent());
        let (permit, dropped_attributes, is_readable, counted_part) =
            apply_knowledge(knowledge, permit, token_type, &data);
        check_data(caller, token_type, &mut data, is_marked)?;

        let cvc = take_cvc(token_type, &mut data);
        let patch = updates_existing(caller, intent.is_some())
            .then(|| build_existing_patch(&new, token_type, &data, cvc.as_ref()));
        let mut body = TokenBody {
            data,
            expressions_writer: Some(caller.application()),
            number_version: draw_number_version(vault, token_type),
            is_marked,
            typed_at_ms: typed_at.map(|_| now.unix_ms),
            withheld_details,
            ..take_expressions(&mut new, token_type)
        };
        body.withhold_digests(token_type);
        let failure_mode = if is_readable { FailureMode::Report } else { FailureMode::Hide };
        let evaluation = Evaluation::new(vault, caller, token_type, &body, failure_mode);
        let may_digest = !is_marked || may_digest_marked(caller, &containers);
        let EvaluationResult { fingerprint, indexes, data_indexes, mut texts } =
            evaluation.evaluate()?.with_data_indexes(may_digest);
        let (chooses_id, computes_id) =
            (new.id.is_some(), new.id.as_deref().is_some_and(is_expression));
        let known_body = is_readable.then_some(&body);
        let (id, id_assignment) =
            resolve_id(caller.work(), new.id, token_type, known_body, vault.fill_random)?;
        texts.id = computes_id.then(|| Zeroizing::new(id.as_str().to_owned()));
        let mut record = TokenRecord {
            id,
            token_type,
            fingerprint: fingerprint.filter(|_| may_digest),
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
        let mut pending = Self {
            token: StoredToken { record, cvc: None },
            permit,
            intent,
            deduplicate: Deduplicate::No,
            is_deduplication_requested: new.deduplicate,
            patch,
            body,
            cvc,
            id_assignment,
            texts,
            data_indexes,
            is_compared: may_digest && counted_part.is_any() || computes_id,
            counted_part,
            dropped_attributes,
        };
        pending.seal()?;
        Ok(pending)
    }

    /// Counts the numbers of the token, one of `tokens` in the request, before the write. If a budget
    /// is exhausted, the token has no fingerprint, no index entries over its data and no duplicate.
    ///
    /// Errors: the counters cannot be read.
    pub(crate) async fn count_numbers(
        mut self,
        vault: &Vault,
        tokens: usize,
    ) -> Result<CountedToken, Error> {
        let (caller, record) = (self.permit.caller(), &self.token.record);
        let texts = std::mem::take(&mut self.texts);
        let (token_type, data) = (record.token_type, &self.body.data);
        let (texts, is_known) = (&texts, self.counted_part == CountedPart::Everything);
        let evaluated = EvaluatedNumbers { token_type, data, texts, is_known, tokens };
        let comparison = match self.is_compared {
            true => vault.may_compare(caller, Comparable::Token(evaluated)).await?,
            false => None,
        };
        let Some(comparison) = comparison else {
            self.token.record.fingerprint = None;
            self.token.record.drop_data_indexes(self.data_indexes);
            self.patch = None;
            self.seal()?;
            return Ok(CountedToken(self));
        };
        self.deduplicate =
            resolve_deduplication(caller, self.is_deduplication_requested, record, comparison);
        Ok(CountedToken(self))
    }

    /// Whether a payer typed the data into a hosted field.
    pub(super) fn is_typed(&self) -> bool {
        self.body.typed_at_ms.is_some()
    }

    /// Seals the body under the current id.
    fn seal(&mut self) -> Result<(), Error> {
        let record = &mut self.token.record;
        record.body = self.body.seal(self.permit.caller().tenant(), record)?;
        Ok(())
    }

    /// Loads the key and seals the CVC. This is a separate step after all other checks, because the
    /// key may be on another node.
    /// Errors: the key cannot be loaded.
    pub(crate) async fn load_key_and_seal_cvc(&mut self, vault: &Vault) -> Result<(), Error> {
        if self.cvc.is_some() {
            load_cvc_key(&vault.epoch_keys, self.permit.caller(), self.token.record.created_at)
                .await?;
        }
        self.reseal_cvc(vault)
    }

    /// Seals the CVC with a key that is already loaded.
    fn reseal_cvc(&mut self, vault: &Vault) -> Result<(), Error> {
        let (caller, record) = (self.permit.caller(), &self.token.record);
        let seal = |it| seal_cvc(&vault.epoch_keys, caller, it, &record.id, record.created_at);
        self.token.cvc = self.cvc.as_ref().map(seal).transpose()?;
        Ok(())
    }

    /// Assigns another id after a conflict.
    /// Errors: the request named the id.
    pub(crate) fn assign_new_id(&mut self, vault: &Vault) -> Result<(), Error> {
        let IdAssignment::Alias { source, draws_remaining } = &mut self.id_assignment else {
            return Err(taken_id_error());
        };
        let record = &mut self.token.record;
        if let Some(draws) = draws_remaining.checked_sub(1) {
            *draws_remaining = draws;
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

    /// `None` if the token is not deduplicated.
    pub(crate) fn duplicate_identity(&self) -> Option<DuplicateIdentity> {
        DuplicateIdentity::of(&self.token.record).filter(|_| self.deduplicate != Deduplicate::No)
    }

    /// As [`Self::duplicate_identity`], before the numbers of the token are counted.
    pub(crate) fn requested_identity(&self) -> Option<DuplicateIdentity> {
        let (caller, record) = (self.permit.caller(), &self.token.record);
        let is_requested =
            requests_deduplication(caller, self.is_deduplication_requested, record.token_type);
        DuplicateIdentity::of(record).filter(|_| is_requested)
    }

    /// Errors: as for [`Caller::permit`].
    pub(crate) fn write(
        &self,
        deduplicate: Deduplicate,
        audit: AuditRecord,
        fill_random: fn(&mut [u8]),
    ) -> Result<TokenWrite, Error> {
        let written = EventSource::new(self.permit.tenant(), &audit, fill_random)
            .raise(EventType::TokenCreated, || describe_token(&self.token.record, &self.body));
        Ok(TokenWrite::Insert(InsertToken {
            permit: self.permit.recheck()?,
            token: self.token.clone(),
            intent: self.intent.as_ref().map(|it| it.id),
            deduplicate,
            audit,
            events: TokenEvents { written, fill_random },
        }))
    }

    /// The view for the stored response, if the token is new.
    pub(crate) fn stored_response_view(&self, audience: Audience<'_>) -> Result<TokenView, Error> {
        let mut view = build_view(&self.permit, &self.token, self.body.duplicate(), audience)?;
        if let Some(detail) = &mut view.detail {
            detail.dropped_attributes = self.dropped_attributes.clone();
        }
        Ok(view)
    }

    /// The view for the caller, if the token is new. The CVC is still in memory and need not be
    /// opened.
    pub(crate) fn into_view(mut self, audience: Audience<'_>) -> Result<TokenView, Error> {
        self.token.cvc = None;
        let mut view = build_view(&self.permit, &self.token, self.body, audience)?;
        if let Some(detail) = &mut view.detail {
            detail.dropped_attributes = self.dropped_attributes;
            if detail.visible.transform == Transform::Reveal {
                detail.visible.cvc = self.cvc;
            }
        }
        Ok(view)
    }
}

/// The permit for the response, the dropped attributes that it names, whether an error may depend on the
/// data, and what the guessing budget counts.
fn apply_knowledge(
    knowledge: DataKnowledge,
    permit: Permit,
    token_type: TokenType,
    data: &Plaintext,
) -> (Permit, DroppedAttributes, bool, CountedPart) {
    match knowledge {
        DataKnowledge::Known => {
            let dropped = DroppedAttributes::find(token_type, data.expose());
            (permit, dropped, true, CountedPart::Everything)
        }
        // The response shows the data only by the right to read.
        DataKnowledge::Unknown { is_readable, counted_part } => {
            (permit.limit_to_read(), DroppedAttributes::default(), is_readable, counted_part)
        }
    }
}

/// A conversion updates the existing token, whatever the tenant's setting for other creates.
fn updates_existing(caller: &Caller, is_conversion: bool) -> bool {
    let behavior = caller.tenant().settings.token_deduplication_behavior;
    is_conversion || behavior == UpdateExisting
}

/// A body with the metadata and the expressions of a request.
fn take_expressions(new: &mut NewToken, token_type: TokenType) -> TokenBody {
    TokenBody {
        mask: new.mask.take().and_then(|it| token_type.custom_mask(it)),
        metadata: new.metadata.take(),
        search_indexes: new.search_indexes.take(),
        fingerprint_expression: new.fingerprint_expression.take(),
        ..TokenBody::default()
    }
}

/// Evaluates the id of a request; a random one if the request has none.
/// The id of a new token. `body` is `None` if the caller does not know the data: it must not learn whether
/// an id contains the number.
fn resolve_id(
    work: &WorkMeter,
    source: Option<String>,
    token_type: TokenType,
    body: Option<&TokenBody>,
    fill_random: fn(&mut [u8]),
) -> Result<(TokenId, IdAssignment), Error> {
    let Some(source) = source else {
        return Ok((TokenId::random(fill_random), IdAssignment::Fixed));
    };
    let Some(body) = body else {
        return Ok((TokenId::parse(&source)?, IdAssignment::Fixed));
    };
    let NewId { id, is_alias } = evaluate_token_id(work, &source, token_type, body, fill_random)?;
    if !is_alias {
        return Ok((id, IdAssignment::Fixed));
    }
    Ok((id, IdAssignment::Alias { source, draws_remaining: ALIAS_DRAWS.saturating_sub(1) }))
}

/// The first revision of a token. It is random, so that a writer that has read a deleted token does
/// not update a new token with the same id.
fn first_revision(fill_random: fn(&mut [u8])) -> i64 {
    let mut bytes = [0; 8];
    fill_random(&mut bytes);
    // Positive, with enough range to increment.
    i64::from_be_bytes(bytes).unsigned_abs().checked_shr(2).unwrap_or(0).cast_signed()
}

/// The changes of the request to an existing token.
fn build_existing_patch(
    new: &NewToken,
    token_type: TokenType,
    data: &Plaintext,
    cvc: Option<&Cvc>,
) -> TokenPatch {
    let data = with_cvc(data.duplicate(), cvc);
    // Two untyped tokens with the same default fingerprint have equal data. A merge would only drop
    // nulls.
    let is_equal_data = token_type == TokenType::Token && new.fingerprint_expression.is_none();
    TokenPatch {
        data: (!is_equal_data).then_some(data),
        metadata: new.metadata.as_ref().map(|it| serde_json::json!(it)),
        deduplicate: Some(false),
        expires_at: new.expires_at.map(Some),
        // A token that may be updated has the same expressions, or expressions that do not change.
        ..TokenPatch::default()
    }
}

pub(crate) fn check_expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Error> {
    if expires_at.is_some_and(|it| it <= now) {
        return Err(FieldError::new("expires_at", "must be in the future").into());
    }
    Ok(())
}
