//! The number of a card that a 3DS session uses.

use crate::{
    Error, Vault,
    policy::Caller,
    token::{TokenPatch, TokenRecord, number_in_use_error, patch_has_card_number},
    types::Permission,
};

/// Rejects a new number for a card that a session uses, by a public application or an access
/// session. The payer may control the browser, and could have one card authenticated and another
/// one charged. Even the same number is rejected: the difference would confirm a guess.
///
/// The store checks again when it writes. The check here runs before the number counts as a guess.
/// Errors: the patch has a number, and a session uses the card.
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
