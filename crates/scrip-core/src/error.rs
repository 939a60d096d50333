//! What can go wrong, sorted by what the reader of the error can do about it.

pub mod field_error;

use std::{error, time::Duration};

use scrip_seal::{EpochKeyError, KeySourceError, OpenError};

use crate::{
    policy::{ApplicationKind, Permission},
    threeds::ServiceFailure,
    time::Timestamp,
};

pub use self::field_error::FieldError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Change the request.
    #[error("the request is not valid")]
    Invalid(Vec<FieldError>),
    /// Ask an administrator for a rule.
    #[error("{0}")]
    Forbidden(Denial),
    /// It is not there, or it is not yours to know.
    #[error("there is no such thing in this tenant")]
    NotFound,
    /// It is there, but what is asked of it is not.
    #[error("{reason}")]
    NotReady { reason: &'static str },
    /// Something else holds it; look again.
    #[error("{reason}")]
    Conflict { reason: &'static str },
    /// Understood, and not possible as things are.
    #[error("{reason}")]
    Unprocessable { reason: &'static str },
    /// Wait.
    #[error("more requests than the limit {} allows; wait", .0.limit)]
    RateLimited(RateLimitExceeded),
    /// A search or guessing budget is spent. Waiting a moment does not help, so no time is given.
    #[error("too many searches for values like this one; a key with a reveal right is not limited")]
    BudgetExhausted,
    /// Somebody we had to ask did not answer as they should; for a card, perhaps nobody takes part.
    #[error("{}", .0.message)]
    Service(Box<ServiceFailure>),
    /// Try again; we are looking at it.
    #[error("the vault cannot do this now; try again shortly")]
    Unavailable(#[source] ErrorCause),
    /// Our fault. The cause goes to the log, never to the caller.
    #[error("something went wrong on our side")]
    Internal(#[source] ErrorCause),
}

pub type ErrorCause = Box<dyn error::Error + Send + Sync>;

/// What there was too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitExceeded {
    /// The limit's name, as the operator knows it.
    pub limit: &'static str,
    pub requests: u32,
    /// Whoever waits so long is let in, unless somebody else takes the place.
    pub retry_after: Duration,
    /// The same as an instant.
    pub retry_at: Timestamp,
}

/// What exactly was not allowed. Names rules and attributes, never values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("no permission or access rule grants {} here", .0.as_str())]
    NoRule(Permission),
    /// Only applications of this kind may.
    #[error("this needs the key of a {} application", .0.as_str())]
    WrongKind(ApplicationKind),
    /// The session would be granted more than the application that authorizes it has.
    #[error("the session would have more of {} than this application has", .0.as_str())]
    ExceedsAuthorizer(Permission),
    /// Changing this attribute would show the caller what it may not read.
    #[error("changing {0} needs a reveal right on the token")]
    NeedsReveal(&'static str),
    /// This expression would tell the caller about data that it may not read.
    #[error("{0} would tell of data that this key may not read; that needs a reveal right")]
    ExposingExpression(&'static str),
    /// The operator has not switched 3-D Secure on for this tenant.
    #[error("3-D Secure is not switched on for this tenant")]
    ThreeDsDisabled,
    /// Only the application that created the session may.
    #[error("only the application that created the session may change it")]
    NotCreator,
    /// A public application or access session may not shorten a life or move a token.
    #[error(
        "{0} cannot be changed this way by a public key or an access session; use a private key"
    )]
    NeedsPrivateKey(&'static str),
    /// The token would land where the caller sees more of it than now.
    #[error("the token would move to a container where this key sees more of it or can use it")]
    StrongerTransform,
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid(vec![error])
    }
}

/// A stored value that does not open was altered or belongs elsewhere: never the caller's fault.
impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Self::Internal(error.into())
    }
}

impl From<KeySourceError> for Error {
    fn from(error: KeySourceError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// A code whose key others have, who do not answer.
impl From<EpochKeyError> for Error {
    fn from(error: EpochKeyError) -> Self {
        Self::Unavailable(error.into())
    }
}
