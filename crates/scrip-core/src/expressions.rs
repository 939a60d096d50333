//! The expressions of a token, evaluated: its id, its fingerprint, its search indexes, its mask.
//!
//! None of them ever sees a cvc: it is taken out of the data before anything is evaluated.

use std::{borrow::Cow, sync::Arc};

use scrip_expression::{Expression, ExpressionError, Outside, Scope, is_expression};
use scrip_seal::{Fingerprint, IndexDigest};
use serde_json::Value;

use crate::{
    body::Body,
    caller::Caller,
    card,
    compiled::{Draw, compile, compile_steady},
    error::FieldError,
    id::TokenId,
    reveal,
    tenant::Tenant,
    token_type::TokenType,
    work::{Attempt, WorkMeter},
};

pub(crate) const SEARCH_INDEXES_MAX: usize = 16;
/// Every entry is one in the index of searches, in each of the token's containers.
const METADATA_MAX: usize = 50;

/// What a token's expressions gave.
pub(crate) struct Evaluated {
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) indexes: Vec<IndexDigest>,
}

/// All of them are charged to the caller's request.
pub(crate) fn evaluate(
    caller: &Caller,
    token_type: TokenType,
    body: &Body,
) -> Result<Evaluated, FieldError> {
    let fingerprint = fingerprint(caller, token_type, body)?;
    let mut indexes = indexes(caller, token_type, body)?;
    indexes.extend(metadata_indexes(caller.tenant(), body)?);
    if body.mask.is_some() {
        let masked = reveal::mask(caller.work(), token_type, body);
        let masked = masked.map_err(|error| FieldError::expression("mask", error))?;
        // Not by an expression, which never sees it, but written out.
        let number = card::number_of(body.data.expose()).filter(|_| token_type.is_card());
        if let (Some(masked), Some(number)) = (masked, number)
            && shows(masked.expose(), number)
        {
            return Err(FieldError::new("mask", "must not contain the card number"));
        }
    }
    Ok(Evaluated { fingerprint, indexes })
}

fn shows(value: &Value, number: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(it) => it.to_string().contains(number),
        Value::String(text) => {
            let plain: String = text.chars().filter(|it| !" -._/".contains(*it)).collect();
            plain.contains(number)
        }
        Value::Array(items) => items.iter().any(|it| shows(it, number)),
        Value::Object(object) => {
            object.iter().any(|(name, it)| name.contains(number) || shows(it, number))
        }
    }
}

/// One expression over one body, charged to the request.
fn run(
    work: &WorkMeter,
    expression: &Expression,
    (data, metadata): (&Value, Option<&Value>),
    outside: &dyn Outside,
) -> Result<Value, ExpressionError> {
    let attempt = work.run(|work_max| {
        let scope = Scope::new(data, metadata).with_outside(outside).within_work(work_max);
        Attempt { result: expression.evaluate(&scope), spent: scope.spent() }
    });
    attempt.result
}

fn fingerprint(
    caller: &Caller,
    token_type: TokenType,
    body: &Body,
) -> Result<Option<Fingerprint>, FieldError> {
    const FIELD: &str = "fingerprint_expression";
    let tenant = caller.tenant();
    let own = match &body.fingerprint_expression {
        Some(source) => Some(steady(caller.work(), FIELD, source)?),
        None if tenant.settings.fingerprint_tokens => None,
        None => return Ok(None),
    };
    let expression = own.as_deref().unwrap_or_else(|| token_type.default_fingerprint());
    // Only an expression of one's own can name the metadata, so only then is it brought along.
    let metadata = own.is_some().then(|| metadata(body));
    let seen = (body.data.expose(), metadata.as_ref());
    let value = run(caller.work(), expression, seen, &Draw::none())
        .map_err(|error| FieldError::expression(FIELD, error))?;
    let text = text(&value).ok_or_else(|| FieldError::new(FIELD, "must give a value"))?;
    Ok(Some(tenant.keys.fingerprint(token_type.as_str(), text.as_bytes())))
}

fn metadata(body: &Body) -> Value {
    let pairs = body.metadata.iter().flatten();
    Value::Object(pairs.map(|(name, value)| (name.clone(), value.clone().into())).collect())
}

fn indexes(
    caller: &Caller,
    token_type: TokenType,
    body: &Body,
) -> Result<Vec<IndexDigest>, FieldError> {
    let sources = body.search_indexes.as_deref().unwrap_or_else(|| token_type.default_indexes());
    if sources.len() > SEARCH_INDEXES_MAX {
        return Err(FieldError::new("search_indexes", "must have at most 16 entries"));
    }
    let mut digests = Vec::with_capacity(sources.len());
    let draw = Draw::none();
    for (at, source) in sources.iter().enumerate() {
        let field = || format!("search_indexes[{at}]");
        let expression = steady(caller.work(), field(), source)?;
        let value = run(caller.work(), &expression, (body.data.expose(), None), &draw)
            .map_err(|error| FieldError::expression(field(), error))?;
        let single =
            text(&value).filter(|it| !it.is_empty() && !value.is_array() && !value.is_object());
        let rule = "must give one value that is not empty";
        let single = single.ok_or_else(|| FieldError::new(field(), rule))?;
        let digest = caller.tenant().keys.index(single.as_bytes());
        if !digests.contains(&digest) {
            digests.push(digest);
        }
    }
    Ok(digests)
}

/// Each entry is found without regard to case; who asks for an exact one is shown no other.
fn metadata_indexes(tenant: &Tenant, body: &Body) -> Result<Vec<IndexDigest>, FieldError> {
    let Some(metadata) = &body.metadata else { return Ok(Vec::new()) };
    if metadata.len() > METADATA_MAX {
        return Err(FieldError::new("metadata", "must have at most 50 entries"));
    }
    let mut digests = Vec::with_capacity(metadata.len());
    for (name, value) in metadata {
        let digest = metadata_index(tenant, name, value);
        if !digests.contains(&digest) {
            digests.push(digest);
        }
    }
    Ok(digests)
}

pub(crate) fn metadata_index(tenant: &Tenant, name: &str, value: &str) -> IndexDigest {
    let (name, value) = (name.to_lowercase(), value.to_lowercase());
    tenant.keys.metadata_index(name.as_bytes(), value.as_bytes())
}

/// Where a token's id comes from.
pub(crate) enum IdSource {
    /// It was given as it is.
    Given(TokenId),
    /// An expression gave it, and would give the same again.
    Computed(TokenId),
    /// An expression that makes an alias gave it; another one may be free when this is taken.
    Alias(TokenId),
}

impl IdSource {
    pub(crate) fn id(&self) -> &TokenId {
        let (Self::Given(id) | Self::Computed(id) | Self::Alias(id)) = self;
        id
    }

    pub(crate) fn into_id(self) -> TokenId {
        let (Self::Given(id) | Self::Computed(id) | Self::Alias(id)) = self;
        id
    }
}

/// An id as it was given or computed. It stands in clear, so none may hold the secret.
///
/// One that is computed for a card is computed for another card that looks like it, and must be the
/// same for a second one: then it tells nothing but BIN and last four. The number itself takes no
/// part, so neither what comes out nor whether something does can be used to ask about its digits.
pub(crate) fn token_id(
    work: &WorkMeter,
    source: &str,
    token_type: TokenType,
    body: &Body,
    chance: fn(&mut [u8]),
) -> Result<IdSource, FieldError> {
    let id = if is_expression(source) {
        let expression = parse(work, "id", source)?;
        if expression.is_random() {
            return alias(work, &expression, (token_type, body), chance);
        }
        IdSource::Computed(computed(work, &expression, (token_type, body), &Draw::none())?)
    } else {
        IdSource::Given(TokenId::parse(source)?)
    };
    if names_secret(id.id(), token_type, body) {
        return Err(FieldError::new("id", "must not contain the number that it stands for"));
    }
    Ok(id)
}

/// An alias is never the value it is drawn for, and is drawn for cards that only look like this one:
/// by chance it is one of those, or the card itself. Then it is drawn again.
fn alias(
    work: &WorkMeter,
    expression: &Expression,
    (token_type, body): (TokenType, &Body),
    chance: fn(&mut [u8]),
) -> Result<IdSource, FieldError> {
    const DRAWS: usize = 16;
    let mut refused = None;
    for _ in 0..DRAWS {
        match computed(work, expression, (token_type, body), &Draw::new(chance)) {
            Ok(id) if names_secret(&id, token_type, body) => refused = None,
            Ok(id) => return Ok(IdSource::Alias(id)),
            Err(error) => refused = Some(error),
        }
    }
    refused.map_or_else(|| Ok(IdSource::Alias(TokenId::random(chance))), Err)
}

fn computed(
    work: &WorkMeter,
    expression: &Expression,
    (token_type, body): (TokenType, &Body),
    draw: &Draw,
) -> Result<TokenId, FieldError> {
    let over = |fill: u8| {
        let data = reveal::guard(token_type, &body.data, |it| card::disguised(it, fill));
        let attempt = work.run(|work_max| {
            draw.begin_again();
            let scope = Scope::new(data.expose(), None).with_outside(draw).within_work(work_max);
            Attempt { result: expression.evaluate(&scope), spent: scope.spent() }
        });
        attempt.result.map_err(|error| FieldError::expression("id", error))
    };
    let value = over(b'0')?;
    if token_type.is_card() && over(b'7')? != value {
        let rule = "must not show more of a card number than BIN and last four";
        return Err(FieldError::new("id", rule));
    }
    let text = text(&value).ok_or_else(|| FieldError::new("id", "must give a value"))?;
    TokenId::parse(&text)
}

/// Numbers shorter than this stand in an id by accident.
const SECRET_DIGITS_MIN: usize = 6;

/// Whether the secret number of a type that has one can be read off the id, whatever stands
/// between its digits.
pub(crate) fn names_secret(id: &TokenId, token_type: TokenType, body: &Body) -> bool {
    if token_type == TokenType::Token {
        return false;
    }
    let secret = match token_type.secret_property() {
        None => Some(body.data.expose()),
        Some(property) => body.data.expose().get(property),
    };
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let secret = secret.and_then(Value::as_str).map(digits).unwrap_or_default();
    secret.len() >= SECRET_DIGITS_MIN && digits(id.as_str()).contains(&secret)
}

fn parse(
    work: &WorkMeter,
    field: impl Into<Cow<'static, str>>,
    source: &str,
) -> Result<Arc<Expression>, FieldError> {
    compile(work, source).map_err(|error| FieldError::expression(field, error))
}

fn steady(
    work: &WorkMeter,
    field: impl Into<Cow<'static, str>>,
    source: &str,
) -> Result<Arc<Expression>, FieldError> {
    compile_steady(work, source).map_err(|error| FieldError::expression(field, error))
}

/// What stands for a value in a digest: text is itself, anything else its compact JSON.
fn text(value: &Value) -> Option<String> {
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
