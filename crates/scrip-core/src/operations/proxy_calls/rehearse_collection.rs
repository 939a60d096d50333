//! Checks a token that a proxied call will store, before anything is stored.

use crate::{
    Error, Vault,
    card::TokenType,
    disclosure::check_sender_rights,
    policy::{AccessTarget, Caller},
    reveal::Audience,
    token::{DataPlace, NewToken, WrittenToken},
    types::Containers,
    writes::pending_token::{PendingToken, load_data_source},
};

/// Checks that the sender of a call has no more rights on a new token of this type in these containers
/// than on the data that it may not read, which is stored at `places`.
///
/// Errors: the sender would see more of the data, or could use it.
pub fn check_collected_places(
    vault: &Vault,
    creator: &Caller,
    token_type: TokenType,
    containers: &Containers,
    places: &[DataPlace],
) -> Result<(), Error> {
    let target = AccessTarget { containers, id: None };
    check_sender_rights(creator, token_type, places, target, vault.disclosure)
}

/// The token as it would be created, with an id that no token will have. Nothing is written.
/// Errors: the request is invalid, or no rule allows it.
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
