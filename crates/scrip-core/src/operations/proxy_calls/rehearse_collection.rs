//! Checks a token that a proxied call will store, before anything is stored.

use crate::{
    Error, Vault,
    policy::Caller,
    token::{
        NewToken, WrittenToken,
        reveal::Audience,
        write::{conversion::load_data_source, pending_token::PendingToken},
    },
};

/// The token as it would be created, with an id that no token will have. Nothing is written.
///
/// # Errors
/// The request is invalid, or no rule allows it.
pub async fn rehearse_collection(
    vault: &Vault,
    creator: &Caller,
    mut new: NewToken,
) -> Result<WrittenToken, Error> {
    let now = vault.clock.now();
    let source = load_data_source(vault, creator, &mut new).await?;
    let pending = PendingToken::new(vault, creator, new, source, now)?;
    let token = pending.into_view(Audience::Caller { vault, now })?;
    Ok(WrittenToken { token, deduplicated: None })
}
