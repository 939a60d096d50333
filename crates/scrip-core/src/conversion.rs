//! Making a token of an intent.
//!
//! Whoever converts an intent need not know what is in it. So the expressions that it gives are
//! bounded: without a right to see the data in the clear, they must not tell it.

use crate::{
    Vault,
    caller::Caller,
    card,
    container::Containers,
    error::{Error, FieldError, Refusal},
    id::TokenIntentId,
    permission::{Permission, Transform},
    plain::Plain,
    token::{NewToken, TokenSource},
    token_intent::IntentBody,
    token_type::TokenType,
};

/// Where a draft's data comes from.
pub(crate) struct Source {
    pub(crate) token_type: TokenType,
    pub(crate) data: Plain,
    /// The intent that ends with it.
    pub(crate) intent: Option<TokenIntentId>,
}

/// Takes the data out of the request, or out of the intent that it names. The intent's code stays
/// behind.
///
/// # Errors
/// There is no such live intent.
pub(crate) async fn open_source(
    vault: &Vault,
    caller: &Caller,
    new: &mut NewToken,
) -> Result<Source, Error> {
    let taken = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    let text = match taken {
        TokenSource::Data { token_type, data } => {
            return Ok(Source { token_type, data, intent: None });
        }
        TokenSource::Intent(text) => text,
    };
    let id = TokenIntentId::parse(&text).ok_or_else(unknown)?;
    let inquiry = caller.inquire(Permission::TokenCreate)?;
    let found = vault.store.find_token_intent(inquiry, id, vault.clock.latest()).await?;
    let record = found.ok_or_else(unknown)?.record;
    let body = IntentBody::open(caller.tenant(), &record)?;
    Ok(Source { token_type: record.token_type, data: body.data, intent: Some(id) })
}

pub(crate) fn unknown() -> Error {
    FieldError::new("token_intent_id", "is no token intent of this tenant, or not any more").into()
}

/// Expressions over a card that tell no more than its last four digits and its expiry.
const HARMLESS: [&str; 4] = [
    "{{ data.number | last4 }}",
    "{{ data | last4 }}",
    "{{ data.expiration_month }}",
    "{{ data.expiration_year }}",
];

/// Whether whoever asks may know the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It brought the data, or may see it in the clear.
    Own,
    Blind,
}

/// # Errors
/// An expression would tell the caller what it may not read.
pub(crate) fn check_blind(
    caller: &Caller,
    new: &NewToken,
    source: &Source,
    containers: &Containers,
) -> Result<Sight, Error> {
    if caller.sight(containers) == Some(Transform::Reveal) {
        return Ok(Sight::Own);
    }
    let Source { token_type, data, .. } = source;
    let refuse = |attribute| Err(Error::Forbidden(Refusal::BlindExpression(attribute)));
    let harmless = |it: &str| token_type.is_card() && HARMLESS.contains(&it);
    let own_fingerprint = |it: &str| it == token_type.default_fingerprint_expression();
    if new.fingerprint_expression.as_deref().is_some_and(|it| !own_fingerprint(it) && !harmless(it))
    {
        return refuse("fingerprint_expression");
    }
    let own_indexes = token_type.default_indexes();
    let mut indexes = new.search_indexes.iter().flatten();
    if indexes.any(|it| !own_indexes.contains(it) && !harmless(it)) {
        return refuse("search_indexes");
    }
    // Of a card a mask never knows more than BIN and last four; but one that is refused because the
    // number is written out in it would say that this is the number.
    if new.mask.as_ref().is_some_and(|it| Some(it) != token_type.default_mask()) {
        return refuse("mask");
    }
    let id = new.id.as_deref();
    if id.is_some_and(scrip_expression::is_expression) {
        return refuse("id");
    }
    check_id(id, (*token_type, data)).map(|()| Sight::Blind)
}

/// An id that is refused because it holds the number would say so. So one is refused that holds any
/// number which looks like it. Only of a card that much is known to everybody; what else an id holds
/// is not looked at.
fn check_id(id: Option<&str>, (token_type, data): (TokenType, &Plain)) -> Result<(), Error> {
    let number = card::number_of(data.expose()).filter(|_| token_type.is_card());
    let (Some(id), Some(number)) = (id, number) else { return Ok(()) };
    if card::names_lookalike(id, number) {
        let rule = "must not contain a number that looks like this card's";
        return Err(FieldError::new("id", rule).into());
    }
    Ok(())
}
