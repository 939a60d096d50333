//! A caller that converts an intent need not know what is in it. Without a reveal right on the new
//! token, the request may hold no expression that tells.

use scrip_expression::{Expression, PlainPart, is_expression};

use crate::{
    card,
    error::{Denial, Error, FieldError},
    id::TokenId,
    policy::{AccessTarget, Caller, Permission},
    token::{
        Containers, NewToken, TokenType,
        disclosure::{
            DisclosureRule, DisclosureRules, LifetimeChange, check_lifetime_change,
            check_no_added_rights, has_reveal_right,
        },
        expression::compilation::compile,
        write::conversion::TokenDataSource,
    },
};

/// # Errors
/// An expression would tell the caller what it may not read, the caller would gain a right by the
/// conversion, or a browser would shorten the life of what it converts.
pub(crate) fn check_conversion(
    caller: &Caller,
    new: &NewToken,
    source: &TokenDataSource,
    containers: &Containers,
    rules: DisclosureRules,
) -> Result<(), Error> {
    let Some(intent) = &source.intent else { return Ok(()) };
    check_intent_access(caller, source.token_type, &intent.containers)?;
    if rules.applies(DisclosureRule::StrongerRight) {
        // Rules of an access session may be about ids, and the caller chooses this one.
        let id = new.id.as_deref().and_then(|it| TokenId::parse(it).ok());
        let to = AccessTarget { containers, id: id.as_ref() };
        check_no_added_rights(caller, source.token_type, (&intent.containers).into(), to)?;
    }
    let life =
        LifetimeChange::Conversion { intent_expires_at: intent.expires_at, after: new.expires_at };
    check_lifetime_change(caller, life)?;
    // For the same reason nothing computes an id of an access session's token from hidden data.
    if caller.access_session().is_some() && new.id.as_deref().is_some_and(is_expression) {
        return Err(Error::Forbidden(Denial::ExposingExpression("id")));
    }
    if has_reveal_right(caller, containers) || !rules.applies(DisclosureRule::ConversionExpressions)
    {
        return Ok(());
    }
    let token_type = source.token_type;
    let refuse = |attribute| Err(Error::Forbidden(Denial::ExposingExpression(attribute)));
    let is_harmless = |it: &str| {
        it == token_type.default_fingerprint_expression()
            || compile(caller.work(), it).is_ok_and(|it| is_harmless_fingerprint(token_type, &it))
    };
    if new.fingerprint_expression.as_deref().is_some_and(|it| !is_harmless(it)) {
        return refuse("fingerprint_expression");
    }
    let own = token_type.default_indexes();
    let harmless = |it: &String| own.contains(it) || is_last4_index(token_type, it);
    if !new.search_indexes.iter().flatten().all(harmless) {
        return refuse("search_indexes");
    }
    // Of a card a mask sees BIN and last four only; but one that is refused because the number is
    // written out in it would say that this is the number.
    if new.mask.as_ref().is_some_and(|it| Some(it) != token_type.default_mask()) {
        return refuse("mask");
    }
    if new.id.as_deref().is_some_and(is_expression) {
        return refuse("id");
    }
    check_id(new.id.as_deref(), source)
}

/// An intent in containers that its creator chose is for callers that have a right there. One in the type's default container belongs to the tenant: knowing its id is enough.
fn check_intent_access(
    caller: &Caller,
    token_type: TokenType,
    at: &Containers,
) -> Result<(), Error> {
    use Permission::{TokenCreate, TokenIntentCreate, TokenIntentDelete, TokenIntentRead};
    let default = Containers::from(token_type.default_container());
    let rights = [TokenCreate, TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
    let may = || rights.into_iter().any(|it| caller.transform(it, at).is_some());
    if at.sorted_text() == default.sorted_text() || may() {
        return Ok(());
    }
    Err(Error::Forbidden(Denial::NoRule(TokenCreate)))
}

/// The type's own; or for a card the number once, next to literal text, expiry and metadata. The
/// number must be in it: without, every card that a caller converts would be the same one.
pub(crate) fn is_harmless_fingerprint(token_type: TokenType, expression: &Expression) -> bool {
    if expression.canonical_text() == token_type.default_fingerprint().canonical_text() {
        return true;
    }
    if !token_type.is_card() {
        return false;
    }
    let Some(parts) = expression.plain_parts() else { return false };
    let number: Vec<&str> = token_type.secret_property().into_iter().collect();
    let mut numbers = 0_usize;
    let known = parts.iter().all(|part| match part {
        PlainPart::Text(_) => true,
        PlainPart::Metadata(path) => path.len() == 1,
        PlainPart::Data(path) if *path == number => {
            numbers = numbers.saturating_add(1);
            true
        }
        PlainPart::Data(path) => match path.as_slice() {
            [name] => token_type.unmasked_properties().contains(name),
            _ => false,
        },
    });
    known && numbers == 1
}

/// A search index over the last four digits, which every answer about a card shows.
pub(crate) fn is_last4_index(token_type: TokenType, source: &str) -> bool {
    match token_type.secret_property() {
        _ if !token_type.is_card() => false,
        Some(_) => source == "{{ data.number | last4 }}",
        None => source == "{{ data | last4 }}",
    }
}

/// An id that is refused because it holds the number would say so. So one is refused that holds any
/// number which looks like it. Only of a card that much is known to everybody; what else an id holds
/// is not looked at.
fn check_id(id: Option<&str>, source: &TokenDataSource) -> Result<(), Error> {
    let number = card::card_number(source.data.expose()).filter(|_| source.token_type.is_card());
    let (Some(id), Some(number)) = (id, number) else { return Ok(()) };
    if card::contains_lookalike(id, number) {
        let rule = "must not contain a number that looks like this card's";
        return Err(FieldError::new("id", rule).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_without_reveal_right_accepts_only_fingerprints_of_the_whole_number() {
        let rows = [
            ("{{ data.number }}", true),
            ("{{data.number}}", true),
            ("{{ data['number'] }}", true),
            ("card-{{ data.number }}-{{ data.expiration_year }}", true),
            ("{{ metadata.customer }}{{ data.number }}", true),
            ("{{ data.expiration_month }}", false),
            ("{{ metadata.customer }}", false),
            ("constant", false),
            ("{{ data.number }}{{ data.number }}", false),
            ("{{ data.number | slice: 6, 1 }}", false),
            ("{{ data.number }}{{ data }}", false),
            ("{{ data.number }}{{ data.cvc }}", false),
            ("{{ data.number }}{{ metadata.a.b }}", false),
            ("{% if data.number %}{{ data.number }}{% endif %}", false),
        ];
        let harmless =
            |of, source| is_harmless_fingerprint(of, &Expression::parse(source).unwrap());
        for (source, expected) in rows {
            assert_eq!(harmless(TokenType::Card, source), expected, "{source}");
        }
        assert!(harmless(TokenType::CardNumber, "x{{ data }}"));
        assert!(!harmless(TokenType::Bank, "x{{ data.account_number }}"));
        assert!(!harmless(TokenType::Token, "{{ data.pin }}"));
    }
}
