//! The number of a card that a session names.

use crate::{
    Vault,
    caller::Caller,
    error::Error,
    permission::{ApplicationKind, Permission},
    plain::Plain,
    store::TokenRecord,
    token::TokenPatch,
    token_type::TokenType,
};

/// A public application or an access session may be in the hands of the payer, who could have one
/// card authenticated and another one charged. So neither writes the number of a card that a session
/// names, not even the same number: the difference would tell whether a guess is right.
///
/// # Errors
/// The patch has a number, and a session names the card.
pub(crate) async fn refuse_number_change(
    vault: &Vault,
    caller: &Caller,
    token: &TokenRecord,
    patch: &TokenPatch,
) -> Result<(), Error> {
    let is_public = caller.principal().kind() == ApplicationKind::Public;
    let is_browser = is_public || caller.session().is_some();
    if !is_browser || token.token_type != TokenType::Card {
        return Ok(());
    }
    let data = patch.data.as_ref().map(Plain::expose);
    if !data.is_some_and(|it| it.get("number").is_some() || !it.is_object()) {
        return Ok(());
    }
    let inquiry = caller.inquire(Permission::TokenUpdate)?;
    let now = vault.clock.latest();
    if vault.store.is_named_by_session(inquiry, &token.id, now).await? {
        let reason = "a 3-D Secure session was created for the number of this card";
        return Err(Error::Conflict { reason });
    }
    Ok(())
}
