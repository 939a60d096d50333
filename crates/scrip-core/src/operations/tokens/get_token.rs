//! Get Token.

use crate::{
    Error, Vault,
    policy::Caller,
    read_log::ReadLogEntry,
    reveal::{Audience, reveal},
    token::TokenView,
    types::{Operation, Permission, id::TokenId},
};

/// Errors: there is no such live token, no rule allows the caller to read it, or the read cannot be
/// recorded.
pub async fn get_token(vault: &Vault, caller: &Caller, id: &TokenId) -> Result<TokenView, Error> {
    let now = vault.clock.latest();
    let lookup = caller.permit_lookup(Permission::TokenRead)?;
    let mut stored = vault.store.find_token(lookup, id, now).await?.ok_or(Error::NotFound)?;
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    stored.resolve_cvc(&vault.epoch_keys, permit.transform(), now).await?;
    let view = reveal(&permit, &stored, Audience::Caller { vault, now })?;
    let transform = view.limit_transform(permit.transform());
    let entry = ReadLogEntry::for_token(&stored.record, transform);
    let tokens = std::iter::once((&view.id, view.token_type));
    vault.record_token_reads(caller, Operation::GetToken, vec![entry], tokens).await?;
    Ok(view)
}
