//! A token or an intent that changes containers must not become more useful to the caller.

use crate::{
    error::{Denial, Error},
    policy::{AccessTarget, Caller, Permission, Transform},
    token::TokenType,
};

const USE_PERMISSIONS: [Permission; 4] = [
    Permission::TokenUse,
    Permission::ThreeDsSessionCreate,
    Permission::ThreeDsSessionAuthenticate,
    Permission::ThreeDsSessionRead,
];

/// # Errors
/// The caller would see more of the token in its new containers, or could use it there: to send its
/// data elsewhere, or for 3-D Secure.
pub(crate) fn check_no_added_rights(
    caller: &Caller,
    token_type: TokenType,
    from: AccessTarget<'_>,
    to: AccessTarget<'_>,
) -> Result<(), Error> {
    let is_gained = |it| caller.transform(it, to) > caller.transform(it, from);
    if visible_transform(caller, token_type, to) > visible_transform(caller, token_type, from)
        || USE_PERMISSIONS.into_iter().any(is_gained)
    {
        return Err(Error::Forbidden(Denial::StrongerTransform));
    }
    Ok(())
}

/// Of a card a mask shows BIN and last four, which every answer about the card shows anyway.
fn visible_transform(
    caller: &Caller,
    token_type: TokenType,
    target: AccessTarget<'_>,
) -> Option<Transform> {
    let sight = caller.max_transform(target);
    let only_mask = token_type.is_card() && sight <= Some(Transform::Mask);
    sight.filter(|_| !only_mask)
}
