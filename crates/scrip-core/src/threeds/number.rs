//! The number of a card that a 3DS session uses.

use crate::{
    Error, Vault,
    policy::{Caller, Permission},
    token::{Plaintext, TokenPatch, TokenRecord, TokenType},
};

/// Rejects a new number for a card that a session uses, by a public application or an access
/// session. The payer may control the browser, and could have one card authenticated and another
/// one charged. Even the same number is rejected: the difference would confirm a guess.
///
/// The store checks again when it writes. The check here runs before the number counts as a guess.
///
/// # Errors
/// The patch has a number, and a session uses the card.
pub(crate) async fn reject_number_change(
    vault: &Vault,
    caller: &Caller,
    token: &TokenRecord,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if !caller.is_browser() || !patch_has_card_number(token.token_type, patch) {
        return Ok(());
    }
    let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
    let now = vault.clock.latest();
    if vault.store.is_used_by_threeds_session(lookup, &token.id, now).await? {
        return Err(number_in_use_error());
    }
    Ok(())
}

/// Whether a patch contains a card number, with any value.
pub(crate) fn patch_has_card_number(token_type: TokenType, patch: &TokenPatch) -> bool {
    let data = patch.data.as_ref().map(Plaintext::expose);
    let has_number = data.is_some_and(|it| it.get("number").is_some() || !it.is_object());
    has_number && token_type == TokenType::Card
}

pub(crate) fn number_in_use_error() -> Error {
    let reason = "a 3-D Secure session was created for the number of this card";
    Error::Conflict { reason }
}
