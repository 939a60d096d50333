//! Errors. The variants differ in what the reader of the error can do.

use std::{error, future::Future, pin::Pin, time::Duration};

use scrip_seal::{EpochKeyError, KeySourceError, OpenError};

use crate::{
    FieldError, Timestamp,
    types::{ApplicationKind, Permission, ServiceFailure},
};

/// The error of an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Change the request.
    #[error("the request is not valid")]
    Invalid(Vec<FieldError>),
    /// Request a rule from an administrator.
    #[error("{0}")]
    Forbidden(Denial),
    /// The entity does not exist, or the caller may not know that it exists.
    #[error("Not found.")]
    NotFound,
    /// Like `NotFound`, with a reason that tells every caller the same.
    #[error("{reason}")]
    NotFoundBecause { reason: &'static str },
    /// Another request conflicts; read again.
    #[error("{reason}")]
    Conflict { reason: &'static str },
    /// The request is valid, but not possible in the current state.
    #[error("{reason}")]
    Unprocessable { reason: &'static str },
    /// Wait, then repeat the request.
    #[error("more requests than the limit {} allows; wait", .0.limit)]
    RateLimited(RateLimitExceeded),
    /// A search or guessing budget is exhausted. Waiting a moment does not help, so there is no
    /// retry time.
    #[error("{reason}")]
    BudgetExhausted { reason: &'static str },
    /// A directory server failed or rejected the request; or no scheme supports the card.
    #[error("{}", .0.message)]
    Service(Box<ServiceFailure>),
    /// Try again later.
    #[error("the vault cannot do this now; try again shortly")]
    Unavailable(#[source] ErrorCause),
    /// An internal error. The cause is logged, never returned to the caller.
    #[error("internal error")]
    Internal(#[source] ErrorCause),
}

impl Error {
    /// The text for the log and the operator: the cause of a failure of the server, the fields of
    /// an invalid request, or the message. Never for the caller.
    pub fn cause_text(&self) -> String {
        match self {
            Self::Unavailable(cause) | Self::Internal(cause) => cause.to_string(),
            Self::Invalid(fields) => {
                let describe = |it: &FieldError| format!("{} {}", it.field, it.problem);
                fields.iter().map(describe).collect::<Vec<_>>().join("\n")
            }
            Self::Forbidden(_)
            | Self::NotFound
            | Self::NotFoundBecause { .. }
            | Self::Conflict { .. }
            | Self::Unprocessable { .. }
            | Self::RateLimited(_)
            | Self::BudgetExhausted { .. }
            | Self::Service(_) => self.to_string(),
        }
    }
}

pub(crate) type ErrorCause = Box<dyn error::Error + Send + Sync>;

/// The exceeded rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitExceeded {
    /// The name of the limit in the settings.
    pub limit: &'static str,
    pub requests: u32,
    /// After this wait, a request is admitted, unless other requests use the capacity first.
    pub retry_after: Duration,
    /// `retry_after` as a point in time.
    pub retry_at: Timestamp,
}

/// The reason for a denied request. It names rules and attributes, never values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    #[error("no permission or access rule grants {} here; an administrator can add it", .0.as_str())]
    NoRule(Permission),
    /// An application of this kind cannot have the permission, so an administrator cannot add it.
    #[error(
        "a {} application can never have {}; use the key of a {} application",
        .kind.as_str(), .permission.as_str(), name_kinds(*.permission)
    )]
    KindLacksPermission { kind: ApplicationKind, permission: Permission },
    /// An access session has rights of a private application only.
    #[error(
        "an access session can never have {}; use the key of a {} application",
        .0.as_str(), name_kinds(*.0)
    )]
    SessionLacksPermission(Permission),
    /// The operation is only for applications of this kind.
    #[error("this needs the key of a {} application", .0.as_str())]
    WrongKind(ApplicationKind),
    /// The access session would get more rights than the application that authorizes it.
    #[error("the session would have stronger rights for {} than this application", .0.as_str())]
    ExceedsAuthorizer(Permission),
    /// The change would reveal data that the caller may not read.
    #[error("changing {0} needs a reveal right on the token")]
    NeedsReveal(&'static str),
    /// The expression would reveal data that the caller may not read.
    #[error("{0} would reveal data that this key may not read; that needs a reveal right")]
    ExposingExpression(&'static str),
    /// Another key of the same page may read what is stored there.
    #[error(
        "a browser cannot choose {0} for data that it does not know; an access rule of its \
         application can name the container"
    )]
    ChosenPlace(&'static str),
    /// Another public application of the tenant may have containers that a page can read.
    #[error("a browser converts only token intents of its own application")]
    OtherApplicationIntent,
    /// The page that shows a hosted field could read what the field writes.
    #[error(
        "this key may read the token, so hosted fields do not write into it; use a key or an access \
         session that may update the token and has no reveal right on it"
    )]
    ReadableFieldUpdate,
    /// A payer typed the data after the browser got its rights.
    #[error(
        "data of this token was typed into a hosted field after this key got its reveal right; \
         authorize a new access session, or use one without this right"
    )]
    LaterTypedData,
    /// The change of a proxy or of a tenant decides who receives card data, or lends the rights of an
    /// application.
    #[error(
        "this change also needs application:update, because it decides where data is sent or which \
         rights a proxy has"
    )]
    NeedsApplicationUpdate,
    /// The operator has not enabled 3-D Secure for this tenant.
    #[error("3-D Secure is not enabled for this tenant")]
    ThreeDsDisabled,
    /// The tenant allows pre-configured proxies only.
    #[error(
        "ephemeral proxies are disabled for this tenant (disable_ephemeral_proxy); use a \
         pre-configured proxy"
    )]
    EphemeralProxyDisabled,
    /// A proxy without `require_auth` is open to the caller, but its record needs a right.
    #[error(
        "an idempotency key of a proxied call needs token:use or proxy:invoke; this caller can call \
         the proxy without a key"
    )]
    IdempotencyKeyNeedsUse,
    /// The configuration of a proxy can contain the key of a provider.
    #[error(
        "an access session or a public key cannot evaluate an expression that reads the \
         configuration of the proxy; put the expression into a request transform of the proxy"
    )]
    ConfigurationForBrowser,
    /// A transform copies the answer of a call with a hidden token into attributes of a new token.
    #[error(
        "a tokenize transform of this proxy copies the answer into other attributes than data, and \
         the answer can contain values of hosted fields, or a token that this application may use \
         and not read"
    )]
    HiddenAnswer,
    /// The page could read the attribute.
    #[error(
        "a transform of this proxy copies the request into an attribute of a token other than \
         data, and the request has values of hosted fields"
    )]
    FieldValuesInToken,
    /// The browser says that the page has another origin.
    #[error(
        "the origin of this page is not in the origins of the application; an administrator can \
         add it"
    )]
    ForeignOrigin,
    /// A hosted field would send a value with the rights of a key that its frame does not know.
    #[error(
        "Scrip-Field-Application does not name the public application of the key in BT-API-KEY; \
         hosted fields send values only with the public key of their frame, or with an access \
         session that its application created"
    )]
    ForeignFieldKey,
    /// A hosted field would send a value to a destination that its page chose, or that anyone may use.
    #[error(
        "hosted fields send values only through a pre-configured proxy with require_auth; name it \
         in BT-PROXY-KEY"
    )]
    OpenProxyForFields,
    /// Whether a filter fails, and the length of its result, would tell the caller about the data.
    #[error(
        "an expression can select data that this key may not read, such as | json: '$.number', but \
         not change it; use the value as it is, or a key with a reveal right"
    )]
    FilterOnHiddenData,
    /// What a transform finds in the data, and how long it takes, would tell the caller about the data.
    #[error(
        "a request transform of this proxy would read data that this key may not read: a mask, or an \
         append_json with a body that is no JSON or with a location inside of the data"
    )]
    TransformOnHiddenData,
    /// A header could test the body or the configuration, character by character.
    #[error(
        "a header can use the body or the configuration, which this key may not read, only in a \
         signature (append, then hmac, then to_base16 or to_base64), and the configuration also as text"
    )]
    HeaderOnHiddenData,
    /// The operation is only for the application that created the session.
    #[error("only the application that created the session may change it")]
    NotCreator,
    /// A public application or access session may not shorten the lifetime of a token or move it.
    #[error(
        "{0} cannot be changed this way by a public key or an access session; use a private key"
    )]
    NeedsPrivateKey(&'static str),
    /// The caller would have more rights on the token in its new containers.
    #[error("the token would move to a container where this key sees more of it or can use it")]
    StrongerTransform,
}

/// The kinds of application that can have the permission.
fn name_kinds(permission: Permission) -> String {
    let names: Vec<_> = permission.kinds().iter().map(|it| it.as_str()).collect();
    names.join(" or ")
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Invalid(vec![error])
    }
}

/// A stored value that cannot be opened was altered or moved: never the fault of the caller.
///
/// A key that is not loaded yet is loaded within moments, so the caller can repeat the request.
impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::KeyNotLoaded => Self::Unavailable(error.into()),
            OpenError::Malformed | OpenError::KeyMissing | OpenError::Altered => {
                Self::Internal(error.into())
            }
        }
    }
}

impl From<KeySourceError> for Error {
    fn from(error: KeySourceError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// Other nodes have the key of a CVC and do not respond.
impl From<EpochKeyError> for Error {
    fn from(error: EpochKeyError) -> Self {
        Self::Unavailable(error.into())
    }
}

pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The error for a repeated request while the first one is in flight.
pub(crate) const IN_FLIGHT: &str =
    "the first request with this idempotency key is still being processed";

/// The error of a storage engine.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too many writes are waiting, or the wait for a lock or a connection took too long; nothing was
    /// written.
    #[error(
        "the write queue is full, or an earlier write or the wait for a connection took too long"
    )]
    Busy,
    /// Another request with the same idempotency key completed first, possibly on another node;
    /// nothing was written.
    #[error("another request with this idempotency key completed first")]
    AlreadyCompleted,
    /// The engine did not respond. The outcome of a write is unknown: retry with the same
    /// idempotency key.
    #[error("{0}")]
    Unavailable(ErrorCause),
    /// The engine returned data that the vault could not have written.
    #[error("{0}")]
    Corrupt(&'static str),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable(error.into()),
            StoreError::AlreadyCompleted => Self::Conflict { reason: IN_FLIGHT },
            StoreError::Unavailable(cause) => Self::Unavailable(cause),
            StoreError::Corrupt(description) => Self::Internal(description.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_store_error_names_the_cause() {
        let cases = [
            (
                StoreError::Busy,
                "the write queue is full, or an earlier write or the wait for a connection took too \
                 long",
            ),
            (StoreError::Unavailable("SQLite error 13".into()), "SQLite error 13"),
            (StoreError::Corrupt("the head is missing"), "the head is missing"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
            assert_eq!(Error::from(error).cause_text(), expected);
        }
    }
}
