//! Where a browser may store data that it sends and does not know.
//!
//! A page chooses the container and the id of a token that holds what a payer types. Another key of
//! the same page may have a reveal right in that container, or for that id. So such data is stored
//! only in containers that the administrator chose for it.

use serde_json::Value;

use crate::{
    Error,
    card::TokenType,
    policy::{AccessTarget, Caller, has_reveal_right},
    token::{TokenBody, TokenRecord},
    types::{Containers, Permission, error::Denial},
};

/// Whether a token or intent gets values of hosted fields outside of the attributes of a card that
/// are made for them. The answers of the vault would show parts of such a value, or compare it. The
/// frame marks such requests too, but it does not know the type of a token that an update changes.
pub(crate) fn misplaces_field_values(caller: &Caller, token_type: TokenType, data: &Value) -> bool {
    let kinds = caller.field_kinds();
    let has_attribute = |it: &str| {
        let is_own_number = token_type == TokenType::CardNumber && it == "number";
        is_own_number || (token_type.has_cvc() && data.get(it).is_some())
    };
    kinds.has_text()
        || (kinds.has_card() && token_type != TokenType::Card)
        || !kinds.card_attributes().all(has_attribute)
}

/// Checks an update of data with values of hosted fields: the same key must not read the token. A page
/// could otherwise have a field write into a token, and read what the payer typed.
///
/// Errors: the caller has a reveal right on the token.
pub(crate) fn check_field_update(caller: &Caller, before: &TokenRecord) -> Result<(), Error> {
    let is_readable = caller.field_kinds().has_values() && has_reveal_right(caller, before);
    if is_readable { Err(Error::Forbidden(Denial::ReadableFieldUpdate)) } else { Ok(()) }
}

/// Whether an update puts values of hosted fields under expressions that someone wrote for other data.
/// A page can create a token with a mask or an index of its own, and update it with what a payer types.
pub(crate) fn evaluates_field_values(caller: &Caller, body: &TokenBody) -> bool {
    let has_expression = body.mask.is_some()
        || body.search_indexes.is_some()
        || body.fingerprint_expression.is_some();
    caller.field_kinds().has_values() && has_expression
}

/// Checks the place of data in a request with values of hosted fields. Other requests have no such
/// rule.
/// Errors: as for [`check_browser_place`].
pub(crate) fn check_field_place(
    caller: &Caller,
    permission: Permission,
    token_type: TokenType,
    target: AccessTarget<'_>,
) -> Result<(), Error> {
    if !caller.sends_field_values() {
        return Ok(());
    }
    check_browser_place(caller, permission, token_type, target)
}

/// Checks that a browser stores data in the default container of the type or of cards, or in a place
/// that an access rule of the caller names.
/// Errors: the page chose another place.
pub(crate) fn check_browser_place(
    caller: &Caller,
    permission: Permission,
    token_type: TokenType,
    target: AccessTarget<'_>,
) -> Result<(), Error> {
    let is_default = |it: TokenType| {
        Containers::from(it.default_container()).sorted_text() == target.containers.sorted_text()
    };
    let is_named = || caller.principal().names_place(permission, target);
    if !caller.is_browser() || is_default(token_type) || is_default(TokenType::Card) || is_named() {
        return Ok(());
    }
    Err(Error::Forbidden(Denial::ChosenPlace("containers")))
}
