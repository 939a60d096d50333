//! Where a browser may store data that it sends and does not know.
//!
//! A page chooses the container and the id of a token that holds what a payer types. Another key of
//! the same page may have a reveal right in that container, or for that id. So such data is stored
//! only in containers that the administrator chose for it.

use crate::{
    error::{Denial, Error},
    policy::{AccessTarget, Caller, Permission},
    token::{Containers, TokenType},
};

/// Checks the place of data in a request with values of hosted fields. Other requests have no such
/// rule.
///
/// # Errors
/// As for [`check_browser_place`].
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
///
/// # Errors
/// The page chose another place.
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
