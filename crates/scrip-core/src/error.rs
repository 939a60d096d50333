//! What can go wrong, sorted by what the reader of the error can do about it.

pub mod field_error;

use std::{error, fmt, time::Duration};

use scrip_seal::{CannotOpen, EpochKeysAway, KeySourceError};

use crate::{
    policy::{ApplicationKind, Permission},
    threeds::ServiceFailure,
    time::Timestamp,
};

pub use self::field_error::FieldError;

#[derive(Debug)]
pub enum Error {
    /// Change the request.
    Invalid(Vec<FieldError>),
    /// Ask an administrator for a rule.
    Forbidden(Refusal),
    /// It is not there, or it is not yours to know.
    NotFound,
    /// It is there, but what is asked of it is not.
    NothingYet { reason: &'static str },
    /// Something else holds it; look again.
    Conflict { reason: &'static str },
    /// Understood, and not possible as things are.
    Unprocessable { reason: &'static str },
    /// Wait.
    TooMany(Excess),
    /// A search or guessing budget is spent. Waiting a moment does not help, so no time is given.
    BudgetSpent,
    /// Somebody we had to ask did not answer as they should; for a card, perhaps nobody takes part.
    Service(Box<ServiceFailure>),
    /// Try again; we are looking at it.
    Unavailable(Cause),
    /// Our fault. The cause goes to the log, never to the caller.
    Internal(Cause),
}

pub type Cause = Box<dyn error::Error + Send + Sync>;

/// What there was too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The limit's name, as the operator knows it.
    pub limit: &'static str,
    pub requests: u32,
    /// Whoever waits so long is let in, unless somebody else takes the place.
    pub wait: Duration,
    /// The same as an instant.
    pub until: Timestamp,
}

/// What exactly was not allowed. Names rules and attributes, never values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NoRule(Permission),
    /// Only applications of this kind may.
    WrongKind(ApplicationKind),
    /// The session would be granted more than the application that authorizes it has.
    MoreThanOwn(Permission),
    /// Changing this attribute would show the caller what it may not read.
    NeedsReveal(&'static str),
    /// This expression would tell the caller about data that it may not read.
    BlindExpression(&'static str),
    /// The operator has not switched 3-D Secure on for this tenant.
    NoThreeds,
    /// Only the application that created the session may.
    NotCreator,
    /// A public application or access session may not shorten a life or move a token.
    NeedsPrivateKey(&'static str),
    /// The token would land where the caller sees more of it than now.
    StrongerTransform,
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid(vec![error])
    }
}

/// A stored value that does not open was altered or belongs elsewhere: never the caller's fault.
impl From<CannotOpen> for Error {
    fn from(error: CannotOpen) -> Self {
        Self::Internal(error.into())
    }
}

impl From<KeySourceError> for Error {
    fn from(error: KeySourceError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// A code whose key others have, who do not answer.
impl From<EpochKeysAway> for Error {
    fn from(error: EpochKeysAway) -> Self {
        Self::Unavailable(error.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule(permission) => {
                write!(f, "no permission or access rule grants {} here", permission.as_str())
            }
            Self::WrongKind(kind) => {
                write!(f, "this needs the key of a {} application", kind.as_str())
            }
            Self::MoreThanOwn(permission) => {
                let name = permission.as_str();
                write!(f, "the session would have more of {name} than this application has")
            }
            Self::NeedsReveal(attribute) => {
                write!(f, "changing {attribute} needs a reveal right on the token")
            }
            Self::BlindExpression(attribute) => {
                write!(
                    f,
                    "{attribute} would tell of data that this key may not read; that needs a reveal right"
                )
            }
            Self::NoThreeds => f.write_str("3-D Secure is not switched on for this tenant"),
            Self::NotCreator => {
                f.write_str("only the application that created the session may change it")
            }
            Self::NeedsPrivateKey(attribute) => {
                write!(
                    f,
                    "{attribute} cannot be changed this way by a public key or an access session; \
                     use a private key"
                )
            }
            Self::StrongerTransform => f.write_str(
                "the token would move to a container where this key sees more of it or can use it",
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(_) => f.write_str("the request is not valid"),
            Self::Forbidden(refusal) => refusal.fmt(f),
            Self::NotFound => f.write_str("there is no such thing in this tenant"),
            Self::NothingYet { reason }
            | Self::Conflict { reason }
            | Self::Unprocessable { reason } => f.write_str(reason),
            Self::TooMany(excess) => {
                write!(f, "more requests than the limit {} allows; wait", excess.limit)
            }
            Self::BudgetSpent => f.write_str(
                "too many searches for values like this one; a key with a reveal right is not limited",
            ),
            Self::Service(failure) => f.write_str(failure.message),
            Self::Unavailable(_) => f.write_str("the vault cannot do this now; try again shortly"),
            Self::Internal(_) => f.write_str("something went wrong on our side"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Unavailable(cause) | Self::Internal(cause) => Some(cause.as_ref()),
            Self::Invalid(_)
            | Self::Forbidden(_)
            | Self::NotFound
            | Self::NothingYet { .. }
            | Self::Conflict { .. }
            | Self::Unprocessable { .. }
            | Self::TooMany(_)
            | Self::BudgetSpent
            | Self::Service(_) => None,
        }
    }
}
