//! Checks changes of expiry and containers. Public applications and access sessions run in browsers
//! that the tenant does not control. They must not be able to remove a token: neither by an early
//! expiry nor by a move.

use crate::{
    Error, Timestamp,
    card::TokenType,
    policy::{AccessTarget, Caller},
    types::{Containers, Permission, Transform, error::Denial},
};

/// A write that changes the expiry of a token. `None` is no expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifetimeChange {
    /// A PATCH request with `expires_at`.
    Patch { before: Option<Timestamp>, after: Option<Timestamp> },
    /// The conversion of an intent.
    Conversion { intent_expires_at: Timestamp, after: Option<Timestamp> },
    /// A create request that updates an existing token, possibly by conversion of an intent.
    Deduplication {
        before: Option<Timestamp>,
        requested: Option<Timestamp>,
        intent_expires_at: Option<Timestamp>,
    },
}

/// Checks a change of the expiry. Returns the expiry of the token after the change.
/// Errors: a public application or access session would shorten the lifetime.
pub(crate) fn check_lifetime_change(
    caller: &Caller,
    change: LifetimeChange,
) -> Result<Option<Timestamp>, Error> {
    let is_browser = caller.is_browser();
    match change {
        LifetimeChange::Patch { before, after } if is_browser && is_shorter(after, before) => {
            private_key_required()
        }
        LifetimeChange::Conversion { intent_expires_at, after }
            if is_browser && is_shorter(after, Some(intent_expires_at)) =>
        {
            private_key_required()
        }
        LifetimeChange::Patch { after, .. } | LifetimeChange::Conversion { after, .. } => Ok(after),
        // A create request without an expiry requests a token that does not expire.
        LifetimeChange::Deduplication { requested: None, .. } => Ok(None),
        LifetimeChange::Deduplication { before, requested: Some(requested), intent_expires_at }
            if is_browser =>
        {
            Ok(before.map(|it| it.max(requested).max(intent_expires_at.unwrap_or(requested))))
        }
        LifetimeChange::Deduplication { requested, .. } => Ok(requested),
    }
}

/// Checks that a public application or access session does not move the token.
/// Errors: a public application or access session would move the token.
pub(crate) fn check_public_move(
    caller: &Caller,
    before: &Containers,
    after: &Containers,
) -> Result<(), Error> {
    if caller.is_browser() && before.sorted_text() != after.sorted_text() {
        return Err(Error::Forbidden(Denial::NeedsPrivateKey("containers")));
    }
    Ok(())
}

fn is_shorter(after: Option<Timestamp>, before: Option<Timestamp>) -> bool {
    match (after, before) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(after), Some(before)) => after < before,
    }
}

fn private_key_required<T>() -> Result<T, Error> {
    Err(Error::Forbidden(Denial::NeedsPrivateKey("expires_at")))
}

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
