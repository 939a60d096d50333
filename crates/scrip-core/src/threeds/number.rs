//! The number of a card that a session names.

use crate::{
    Error, Vault,
    policy::{Caller, Permission},
    token::{Plaintext, TokenPatch, TokenRecord, TokenType},
};

/// A public application or an access session may be in the hands of the payer, who could have one
/// card authenticated and another one charged. So neither writes the number of a card that a session
/// names, not even the same number: the difference would tell whether a guess is right.
///
/// The store decides it again when it writes. Here it comes before the number counts as a guess.
///
/// # Errors
/// The patch has a number, and a session names the card.
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

/// Whether a patch has the number of a card, whatever number it is.
pub(crate) fn patch_has_card_number(token_type: TokenType, patch: &TokenPatch) -> bool {
    let data = patch.data.as_ref().map(Plaintext::expose);
    let names = data.is_some_and(|it| it.get("number").is_some() || !it.is_object());
    names && token_type == TokenType::Card
}

pub(crate) fn number_in_use_error() -> Error {
    let reason = "a 3-D Secure session was created for the number of this card";
    Error::Conflict { reason }
}
