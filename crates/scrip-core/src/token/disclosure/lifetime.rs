//! Public applications and access sessions run in browsers that strangers control. They must not be
//! able to take a token away: not by ending its life early, and not by moving it.

use crate::{
    error::{Denial, Error},
    policy::Caller,
    time::Timestamp,
    token::Containers,
};

/// A write that decides how long a token lives. `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifetimeChange {
    /// A PATCH that names `expires_at`.
    Patch { before: Option<Timestamp>, after: Option<Timestamp> },
    /// An intent becomes a token.
    Conversion { intent_expires_at: Timestamp, after: Option<Timestamp> },
    /// A create that updates an existing token, perhaps by conversion of an intent.
    Deduplication {
        before: Option<Timestamp>,
        requested: Option<Timestamp>,
        intent_expires_at: Option<Timestamp>,
    },
}

/// When the token ends.
///
/// # Errors
/// A public application or access session would shorten a life.
pub(crate) fn check_lifetime_change(
    caller: &Caller,
    change: LifetimeChange,
) -> Result<Option<Timestamp>, Error> {
    let public = caller.is_browser();
    match change {
        LifetimeChange::Patch { before, after } if public && is_shorter(after, before) => {
            private_key_required()
        }
        LifetimeChange::Conversion { intent_expires_at: intent_ends, after }
            if public && is_shorter(after, Some(intent_ends)) =>
        {
            private_key_required()
        }
        LifetimeChange::Patch { after, .. } | LifetimeChange::Conversion { after, .. } => Ok(after),
        // A create without an end asks for a token that lives for ever.
        LifetimeChange::Deduplication { requested: None, .. } => Ok(None),
        LifetimeChange::Deduplication {
            before,
            requested: Some(asked),
            intent_expires_at: intent_ends,
        } if public => Ok(before.map(|it| it.max(asked).max(intent_ends.unwrap_or(asked)))),
        LifetimeChange::Deduplication { requested: asked, .. } => Ok(asked),
    }
}

/// # Errors
/// A public application or access session would move the token.
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
