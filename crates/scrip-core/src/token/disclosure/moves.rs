//! A token or an intent that changes containers must not become more useful to the caller.

use crate::{
    error::{Error, Refusal},
    policy::{Caller, Permission, Subject, Transform},
    token::TokenType,
};

const USES: [Permission; 4] = [
    Permission::TokenUse,
    Permission::SessionCreate,
    Permission::SessionAuthenticate,
    Permission::SessionRead,
];

/// # Errors
/// The caller would see more of the token in its new containers, or could use it there: to send its
/// data elsewhere, or for 3-D Secure.
pub(crate) fn check_gain(
    caller: &Caller,
    token_type: TokenType,
    from: Subject<'_>,
    to: Subject<'_>,
) -> Result<(), Error> {
    let is_gained = |it| caller.transform(it, to) > caller.transform(it, from);
    if shown(caller, token_type, to) > shown(caller, token_type, from)
        || USES.into_iter().any(is_gained)
    {
        return Err(Error::Forbidden(Refusal::StrongerTransform));
    }
    Ok(())
}

/// Of a card a mask shows BIN and last four, which every answer about the card shows anyway.
fn shown(caller: &Caller, token_type: TokenType, at: Subject<'_>) -> Option<Transform> {
    let sight = caller.sight(at);
    let only_mask = token_type.is_card() && sight <= Some(Transform::Mask);
    sight.filter(|_| !only_mask)
}
