//! Evaluates the expressions of a token: id, fingerprint, search indexes and mask.
//!
//! No expression ever sees a CVC: it is removed from the data before any evaluation.

mod failure_mode;
mod mask_check;

pub(crate) use self::failure_mode::{FailureMode, MaskOrigin};

use std::{borrow::Cow, sync::Arc};

use scrip_expression::{Expression, ExpressionError, Scope, is_expression};
use scrip_seal::{Fingerprint, IndexDigest};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    FieldError, Vault,
    card::{self, TokenType},
    disclosure::KnownInputs,
    equality::evaluated_numbers::{EvaluatedTexts, FingerprintText},
    expression::compilation::{
        ReplayableRandom, compile_deterministic, compile_for_data, reject_metadata,
    },
    listing::metadata_index_digest,
    policy::{Caller, Tenant},
    reveal,
    token::{TokenBody, TokenRecord},
    types::{DisclosureRule, Plaintext, id::TokenId},
    work_meter::{EvaluationAttempt, EvaluationInput, WorkMeter},
};

pub(crate) const SEARCH_INDEXES_MAX: usize = 16;
/// Every metadata entry is an entry of the search index, in each container of the token.
const METADATA_MAX: usize = 50;

/// The results of a token's expressions.
pub(crate) struct EvaluationResult {
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) indexes: Vec<IndexDigest>,
    /// The number of indexes over the data; the others are over the metadata.
    pub(crate) data_indexes: usize,
    /// The texts of the fingerprint expression and the search indexes, for the guessing budget.
    pub(crate) texts: EvaluatedTexts,
}

impl EvaluationResult {
    /// Drops all index entries over the data, unless they are kept.
    pub(crate) fn with_data_indexes(mut self, are_kept: bool) -> Self {
        self.retain_data_indexes(|_| are_kept);
        self
    }

    /// Drops the index entries over the data for which `is_kept` is false.
    pub(crate) fn retain_data_indexes(&mut self, is_kept: impl Fn(&IndexDigest) -> bool) {
        let metadata_indexes = self.indexes.split_off(self.data_indexes.min(self.indexes.len()));
        self.indexes.retain(is_kept);
        self.data_indexes = self.indexes.len();
        self.indexes.extend(metadata_indexes);
    }
}

/// A token's expressions and the data to evaluate them on.
pub(crate) struct Evaluation<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) token_type: TokenType,
    pub(crate) body: &'a TokenBody,
    pub(crate) vault: &'a Vault,
    pub(crate) failure_mode: FailureMode,
    pub(crate) mask_origin: MaskOrigin,
    /// `None` for a new token, and for a patch by a caller that may read the token.
    pub(crate) hidden_patch: Option<HiddenPatch<'a>>,
}

/// A patch by a caller that may not read the token.
///
/// The digests over inputs that the patch does not write stay as they are. They are neither counted nor
/// added: the guessing budget may have refused them.
#[derive(Clone, Copy)]
pub(crate) struct HiddenPatch<'a> {
    pub(crate) before: &'a TokenRecord,
    pub(crate) known: &'a KnownInputs,
}

impl<'a> Evaluation<'a> {
    /// For a new token or intent, with the expressions of the request.
    pub(crate) fn new(
        vault: &'a Vault,
        caller: &'a Caller,
        token_type: TokenType,
        body: &'a TokenBody,
        failure_mode: FailureMode,
    ) -> Self {
        let mask_origin = MaskOrigin::Request;
        Self { caller, token_type, body, vault, failure_mode, mask_origin, hidden_patch: None }
    }
}

impl Evaluation<'_> {
    pub(crate) fn evaluate(&self) -> Result<EvaluationResult, FieldError> {
        let Self { caller, body, .. } = *self;
        let mut texts = EvaluatedTexts::default();
        let fingerprint = self.compute_fingerprint(&mut texts)?;
        let mut indexes = self.compute_indexes(&mut texts.indexes)?;
        let data_indexes = indexes.len();
        indexes.extend(metadata_indexes(caller.tenant(), body)?);
        mask_check::check_mask(
            self.caller,
            self.token_type,
            self.body,
            self.failure_mode,
            self.mask_origin,
        )?;
        Ok(EvaluationResult { fingerprint, indexes, data_indexes, texts })
    }

    fn metered(&self) -> MeteredInput<'_> {
        MeteredInput { work: self.caller.work(), input: self.failure_mode.input() }
    }

    /// For a card, the data with another number that looks like this one. The result of an
    /// expression on it reveals nothing about the hidden digits.
    fn lookalike_data(&self) -> Option<Plaintext> {
        let applies = self.vault.disclosure.applies(DisclosureRule::LookalikeAcceptance);
        (applies && self.token_type.is_card()).then(|| {
            reveal::replace_card_number(self.token_type, &self.body.data, |it| {
                card::make_lookalike(it, b'0')
            })
        })
    }

    /// Evaluates an expression on the data if it is accepted. A look-alike number decides whether
    /// it is accepted if there is one, and the data otherwise. `None` when the expression is
    /// accepted and gives no value on the data.
    fn evaluate_if_accepted(
        &self,
        evaluate: &dyn Fn(&Value) -> Result<String, FieldError>,
    ) -> Result<Option<String>, FieldError> {
        let data = self.body.data.expose();
        if let Some(lookalike) = self.lookalike_data() {
            evaluate(lookalike.expose())?;
            return Ok(evaluate(data).ok());
        }
        match (evaluate(data), self.failure_mode) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), FailureMode::Hide) => Ok(None),
            (Err(error), FailureMode::Report) => Err(error),
        }
    }

    fn compute_fingerprint(
        &self,
        texts: &mut EvaluatedTexts,
    ) -> Result<Option<Fingerprint>, FieldError> {
        let Self { caller, token_type, body, .. } = *self;
        let (tenant, work, metered) = (caller.tenant(), caller.work(), self.metered());
        let custom_expression = match &body.fingerprint_expression {
            Some(source) => Some(compile_deterministic_field(work, FINGERPRINT_FIELD, source)?),
            None if tenant.settings.fingerprint_tokens => None,
            None => return Ok(None),
        };
        if body.withheld.fingerprint {
            return Ok(None);
        }
        if let Some(it) = self.hidden_patch.filter(|it| !it.known.covers_fingerprint) {
            return Ok(it.before.fingerprint);
        }
        let default_expression = token_type.default_fingerprint();
        let is_from_type_expression = custom_expression
            .as_ref()
            .is_none_or(|it| it.canonical_text() == default_expression.canonical_text());
        let mut digest_text = |text: String| {
            let fingerprint = tenant.keys.fingerprint(token_type.as_str(), text.as_bytes());
            let text = Zeroizing::new(text);
            texts.fingerprint = Some(FingerprintText { text, is_from_type_expression });
            fingerprint
        };
        let Some(expression) = custom_expression else {
            let value =
                fingerprint_text(metered, token_type, default_expression, body.data.expose(), None);
            return match (value, self.failure_mode) {
                (Ok(value), _) => Ok(Some(digest_text(value))),
                (Err(_), FailureMode::Hide) => Ok(Some(self.random_fingerprint())),
                (Err(error), FailureMode::Report) => Err(error),
            };
        };
        // Only an expression from a request can use the metadata.
        let metadata = metadata_object(body);
        let value = self.evaluate_if_accepted(&|data| {
            fingerprint_text(metered, token_type, &expression, data, Some(&metadata))
        })?;
        // A token without a fingerprint would reveal that the expression failed.
        Ok(Some(value.map_or_else(|| self.random_fingerprint(), digest_text)))
    }

    fn random_fingerprint(&self) -> Fingerprint {
        let mut bytes = [0; 32];
        (self.vault.fill_random)(&mut bytes);
        Fingerprint(bytes)
    }

    fn compute_indexes(
        &self,
        texts: &mut Vec<Zeroizing<String>>,
    ) -> Result<Vec<IndexDigest>, FieldError> {
        let Self { caller, token_type, body, .. } = *self;
        let (work, metered) = (caller.work(), self.metered());
        let sources =
            body.search_indexes.as_deref().unwrap_or_else(|| token_type.default_indexes());
        if sources.len() > SEARCH_INDEXES_MAX {
            return Err(FieldError::new("search_indexes", "must have at most 16 entries"));
        }
        let mut digests = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            let field = || format!("search_indexes[{index}]");
            let expression = compile_deterministic_field(work, field(), source)?;
            reject_metadata(expression.reads_metadata())
                .map_err(|error| FieldError::from_expression_error(field(), error))?;
            if body.withheld.indexes.contains(source) {
                continue;
            }
            let value = self.evaluate_if_accepted(&|data| {
                index_value(metered, token_type, &expression, data, &field)
            })?;
            let Some(value) = value else { continue };
            let digest = caller.tenant().keys.index_digest(value.as_bytes());
            if digests.contains(&digest) {
                continue;
            }
            match self.hidden_patch.filter(|it| !it.known.covered_indexes.contains(source)) {
                None => {
                    digests.push(digest);
                    texts.push(Zeroizing::new(value));
                }
                Some(patch) if patch.before.indexes.contains(&digest) => digests.push(digest),
                Some(_) => (),
            }
        }
        Ok(digests)
    }
}

const FINGERPRINT_FIELD: &str = "fingerprint_expression";
const CVC_RULE: &str =
    "has no value: the CVC of a card is not in the data that expressions of a token read";

fn fingerprint_text(
    metered: MeteredInput<'_>,
    token_type: TokenType,
    expression: &Expression,
    data: &Value,
    metadata: Option<&Value>,
) -> Result<String, FieldError> {
    let value =
        evaluate_expression(metered, expression, data, metadata, &ReplayableRandom::unseeded())
            .map_err(|error| FieldError::from_expression_error(FINGERPRINT_FIELD, error))?;
    let rule = || missing_value_rule(token_type, expression, "must give a value");
    value_text(&value).ok_or_else(|| FieldError::new(FINGERPRINT_FIELD, rule()))
}

/// The rule for an expression without a value. It depends on the expression only, not on the data.
fn missing_value_rule(
    token_type: TokenType,
    expression: &Expression,
    rule: &'static str,
) -> &'static str {
    let reads_cvc = || expression.data_inputs().iter().any(|it| it.first() == Some(&"cvc"));
    if token_type.has_cvc() && reads_cvc() { CVC_RULE } else { rule }
}

fn index_value(
    metered: MeteredInput<'_>,
    token_type: TokenType,
    expression: &Expression,
    data: &Value,
    field: &dyn Fn() -> String,
) -> Result<String, FieldError> {
    let value = evaluate_expression(metered, expression, data, None, &ReplayableRandom::unseeded())
        .map_err(|error| FieldError::from_expression_error(field(), error))?;
    let text =
        value_text(&value).filter(|it| !it.is_empty() && !value.is_array() && !value.is_object());
    let rule =
        || missing_value_rule(token_type, expression, "must give one value that is not empty");
    text.ok_or_else(|| FieldError::new(field(), rule()))
}

/// How the work on the data of a token is charged.
#[derive(Clone, Copy)]
struct MeteredInput<'a> {
    work: &'a WorkMeter,
    input: EvaluationInput,
}

/// Evaluates one expression on one body and charges the request.
fn evaluate_expression(
    metered: MeteredInput<'_>,
    expression: &Expression,
    data: &Value,
    metadata: Option<&Value>,
    random: &ReplayableRandom,
) -> Result<Value, ExpressionError> {
    let attempt = metered.work.run(metered.input, |work_max| {
        random.rewind();
        let scope =
            Scope::new(data, metadata).with_host_functions(random).with_work_limit(work_max);
        EvaluationAttempt { result: expression.evaluate(&scope), spent: scope.spent_work() }
    });
    attempt.result
}

fn metadata_object(body: &TokenBody) -> Value {
    let pairs = body.metadata.iter().flatten();
    Value::Object(pairs.map(|(name, value)| (name.clone(), value.clone().into())).collect())
}

/// The index entries of the metadata. They are in lower case; a search for an exact value filters
/// the results.
fn metadata_indexes(tenant: &Tenant, body: &TokenBody) -> Result<Vec<IndexDigest>, FieldError> {
    let Some(metadata) = &body.metadata else { return Ok(Vec::new()) };
    if metadata.len() > METADATA_MAX {
        return Err(FieldError::new("metadata", "must have at most 50 entries"));
    }
    let mut digests = Vec::with_capacity(metadata.len());
    for (name, value) in metadata {
        let digest = metadata_index_digest(tenant, name, value);
        if !digests.contains(&digest) {
            digests.push(digest);
        }
    }
    Ok(digests)
}

/// The id of a new token.
pub(crate) struct NewId {
    pub(crate) id: TokenId,
    /// An alias expression generated the id. Another alias may be free when this one is taken.
    pub(crate) is_alias: bool,
}

/// Evaluates or parses the id. Ids are stored in clear, so no id may contain the secret.
///
/// The id expression of a card is evaluated on a look-alike card, and must give the same id for a
/// second look-alike. Therefore the id depends only on BIN and last four. The number itself is not
/// an input, so neither the result nor an error reveals anything about its digits.
pub(crate) fn evaluate_token_id(
    work: &WorkMeter,
    source: &str,
    token_type: TokenType,
    body: &TokenBody,
    fill_random: fn(&mut [u8]),
) -> Result<NewId, FieldError> {
    let id = if is_expression(source) {
        let expression = compile_for_data(work, source)
            .map_err(|error| FieldError::from_expression_error("id", error))?;
        if expression.is_random() {
            return evaluate_alias(work, &expression, token_type, body, fill_random);
        }
        compute_id(work, &expression, token_type, body, &ReplayableRandom::unseeded())?
    } else {
        TokenId::parse(source)?
    };
    if id_contains_secret(&id, token_type, body) {
        return Err(FieldError::new("id", "must not contain the number of the token"));
    }
    Ok(NewId { id, is_alias: false })
}

/// Generates an alias. It never equals its input. But the input is a look-alike card, so the alias
/// may by chance equal another look-alike or the card itself. Then another alias is generated.
fn evaluate_alias(
    work: &WorkMeter,
    expression: &Expression,
    token_type: TokenType,
    body: &TokenBody,
    fill_random: fn(&mut [u8]),
) -> Result<NewId, FieldError> {
    const ATTEMPTS_MAX: usize = 16;
    let mut last_error = None;
    for _ in 0..ATTEMPTS_MAX {
        match compute_id(work, expression, token_type, body, &ReplayableRandom::new(fill_random)) {
            Ok(id) if id_contains_secret(&id, token_type, body) => last_error = None,
            Ok(id) => return Ok(NewId { id, is_alias: true }),
            Err(error) => last_error = Some(error),
        }
    }
    last_error.map_or_else(|| Ok(NewId { id: TokenId::random(fill_random), is_alias: true }), Err)
}

fn compute_id(
    work: &WorkMeter,
    expression: &Expression,
    token_type: TokenType,
    body: &TokenBody,
    random: &ReplayableRandom,
) -> Result<TokenId, FieldError> {
    let evaluate_with_fill = |fill: u8| {
        let data = reveal::replace_card_number(token_type, &body.data, |it| {
            card::make_lookalike(it, fill)
        });
        let metered = MeteredInput { work, input: EvaluationInput::Known };
        evaluate_expression(metered, expression, data.expose(), None, random)
            .map_err(|error| FieldError::from_expression_error("id", error))
    };
    let value = evaluate_with_fill(b'0')?;
    if token_type.is_card() && evaluate_with_fill(b'7')? != value {
        let rule = "must not show more of a card number than BIN and last four";
        return Err(FieldError::new("id", rule));
    }
    let text = value_text(&value).ok_or_else(|| FieldError::new("id", "must give a value"))?;
    TokenId::parse(&text)
}

/// The minimum length of a secret number. Shorter numbers may occur in an id by accident.
const SECRET_DIGITS_MIN: usize = 6;

/// Whether the id contains the secret number of the type, whatever characters are between the
/// digits.
pub(crate) fn id_contains_secret(id: &TokenId, token_type: TokenType, body: &TokenBody) -> bool {
    if token_type == TokenType::Token {
        return false;
    }
    let secret = match token_type.secret_property() {
        None => Some(body.data.expose()),
        Some(property) => body.data.expose().get(property),
    };
    let extract_digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let secret = secret.and_then(Value::as_str).map(extract_digits).unwrap_or_default();
    secret.len() >= SECRET_DIGITS_MIN && extract_digits(id.as_str()).contains(&secret)
}

fn compile_deterministic_field(
    work: &WorkMeter,
    field: impl Into<Cow<'static, str>>,
    source: &str,
) -> Result<Arc<Expression>, FieldError> {
    compile_deterministic(work, source)
        .map_err(|error| FieldError::from_expression_error(field, error))
}

/// The text of a value for a digest: text itself, or compact JSON for any other value.
fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

#[cfg(test)]
mod tests;
