//! A token or intent that moves to other containers must not give the caller more rights.

use crate::{
    Error,
    card::TokenType,
    policy::{AccessTarget, Caller},
    types::{Permission, Transform, error::Denial},
};

const USE_PERMISSIONS: [Permission; 5] = [
    Permission::TokenUse,
    Permission::ProxyInvoke,
    Permission::ThreeDsSessionCreate,
    Permission::ThreeDsSessionAuthenticate,
    Permission::ThreeDsSessionRead,
];

/// Checks that the caller has no more rights on the new containers.
///
/// Errors: the caller would see more of the token in its new containers, or could use it there: in
/// outgoing requests or for 3-D Secure.
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

/// The strongest transform that shows hidden data. The mask of a card does not count: it shows BIN
/// and last four, which every response about the card contains.
fn visible_transform(
    caller: &Caller,
    token_type: TokenType,
    target: AccessTarget<'_>,
) -> Option<Transform> {
    let transform = caller.max_transform(target);
    let is_card_mask = token_type.is_card() && transform <= Some(Transform::Mask);
    transform.filter(|_| !is_card_mask)
}
