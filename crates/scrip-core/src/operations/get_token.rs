//! Get Token.

use crate::{
    Vault,
    caller::Caller,
    error::Error,
    id::TokenId,
    permission::Permission,
    reveal::{Audience, reveal},
    token::TokenView,
};

/// # Errors
/// There is no such live token, or no rule lets the caller read it.
pub async fn get_token(vault: &Vault, caller: &Caller, id: &TokenId) -> Result<TokenView, Error> {
    let now = vault.clock.latest();
    let inquiry = caller.inquire(Permission::TokenRead)?;
    let stored = vault.store.find_token(inquiry, id, now).await?.ok_or(Error::NotFound)?;
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    reveal(&permit, &stored, Audience::Caller { vault, now })
}
