//! Get Token.

use crate::{
    Error, Vault,
    audit::{Operation, Seen},
    id::TokenId,
    policy::{Caller, Permission},
    token::{
        TokenView,
        reveal::{Audience, reveal},
    },
};

/// # Errors
/// There is no such live token, no rule lets the caller read it, or the read cannot be recorded.
pub async fn get_token(vault: &Vault, caller: &Caller, id: &TokenId) -> Result<TokenView, Error> {
    let now = vault.clock.latest();
    let inquiry = caller.inquire(Permission::TokenRead)?;
    let mut stored = vault.store.find_token(inquiry, id, now).await?.ok_or(Error::NotFound)?;
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    stored.settle_cvc(&vault.epochs, permit.transform(), now).await?;
    let view = reveal(&permit, &stored, Audience::Caller { vault, now })?;
    let seen = Seen::token(&stored.record, permit.transform());
    vault.record_seen(caller, Operation::GetToken, vec![seen]).await?;
    Ok(view)
}
