//! Public applications and access sessions run in browsers that strangers control. They must not be
//! able to take a token away: not by ending its life early, and not by moving it.

use crate::{
    error::{Error, Refusal},
    policy::Caller,
    time::Timestamp,
    token::Containers,
};

/// A write that decides how long a token lives. `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LifeChange {
    /// A PATCH that names `expires_at`.
    Patch { before: Option<Timestamp>, after: Option<Timestamp> },
    /// An intent becomes a token.
    Conversion { intent_ends: Timestamp, after: Option<Timestamp> },
    /// A create that updates an existing token, perhaps by conversion of an intent.
    Deduplication {
        before: Option<Timestamp>,
        asked: Option<Timestamp>,
        intent_ends: Option<Timestamp>,
    },
}

/// When the token ends.
///
/// # Errors
/// A public application or access session would shorten a life.
pub(crate) fn check_life(caller: &Caller, change: LifeChange) -> Result<Option<Timestamp>, Error> {
    let public = caller.is_browser();
    match change {
        LifeChange::Patch { before, after } if public && is_shorter(after, before) => refuse(),
        LifeChange::Conversion { intent_ends, after }
            if public && is_shorter(after, Some(intent_ends)) =>
        {
            refuse()
        }
        LifeChange::Patch { after, .. } | LifeChange::Conversion { after, .. } => Ok(after),
        // A create without an end asks for a token that lives for ever.
        LifeChange::Deduplication { asked: None, .. } => Ok(None),
        LifeChange::Deduplication { before, asked: Some(asked), intent_ends } if public => {
            Ok(before.map(|it| it.max(asked).max(intent_ends.unwrap_or(asked))))
        }
        LifeChange::Deduplication { asked, .. } => Ok(asked),
    }
}

/// # Errors
/// A public application or access session would move the token.
pub(crate) fn check_public_move(
    caller: &Caller,
    before: &Containers,
    after: &Containers,
) -> Result<(), Error> {
    if caller.is_browser() && before.set_text() != after.set_text() {
        return Err(Error::Forbidden(Refusal::NeedsPrivateKey("containers")));
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

fn refuse<T>() -> Result<T, Error> {
    Err(Error::Forbidden(Refusal::NeedsPrivateKey("expires_at")))
}
