//! A failure of a directory server, as reported to the client.

use scrip_threeds::{
    fault::{Component, ErrorCode, Fault},
    message::{Erro, FailureKind},
};

use crate::types::id::ThreeDsSessionId;

/// The failure of a directory server. It contains no values: only codes, names of elements, and
/// texts of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFailure {
    pub reason: FailureReason,
    pub session: Option<ThreeDsSessionId>,
    pub source: Component,
    pub kind: FailureKind,
    pub message: &'static str,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
    /// The card is not in the ranges of any scheme.
    CardNotSupported,
    /// The operator connected no directory server.
    NotConnected,
    /// A scheme is connected, but its ranges are not fetched yet.
    RangesUnavailable,
    /// No message was sent: the session can be authenticated again.
    NotSent,
    TimedOut,
    Broken,
    /// The server responded with an error message.
    ErrorResponse,
    /// The server responded with an invalid message.
    InvalidResponse,
}

impl ServiceFailure {
    pub(crate) fn new(reason: FailureReason, session: Option<ThreeDsSessionId>) -> Self {
        let (source, kind, message, detail) = match reason {
            FailureReason::CardNotSupported => (
                Component::DirectoryServer,
                FailureKind::NotFound,
                "The card is not supported by any connected card scheme",
                "The number is not in the card ranges of any directory server",
            ),
            FailureReason::NotConnected => (
                Component::Server,
                FailureKind::Unavailable,
                "No directory server is connected for this tenant",
                "The operator has to configure threeds for the schemes of this tenant",
            ),
            FailureReason::RangesUnavailable => (
                Component::DirectoryServer,
                FailureKind::Unavailable,
                "The card ranges of a directory server could not be fetched yet",
                "Try again shortly",
            ),
            FailureReason::NotSent => (
                Component::DirectoryServer,
                FailureKind::Unavailable,
                "The directory server could not be reached",
                "Nothing was sent: the session can be authenticated again",
            ),
            FailureReason::TimedOut => (
                Component::DirectoryServer,
                FailureKind::TimedOut,
                "The directory server did not respond in time",
                "The outcome of the request is unknown: create a new session",
            ),
            FailureReason::Broken => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The directory server did not send a complete response",
                "The outcome of the request is unknown: create a new session",
            ),
            FailureReason::ErrorResponse => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The directory server responded with an error",
                "",
            ),
            FailureReason::InvalidResponse => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The response of the directory server is not valid",
                "",
            ),
        };
        let detail = detail.to_owned();
        Self { reason, session, source, kind, message, detail }
    }

    /// The failure for an error message of the server. Its texts are not forwarded, because they
    /// may contain anything.
    pub(crate) fn from_error_message(error: &Erro, session: ThreeDsSessionId) -> Self {
        let code = error.known_code().map_or("", ErrorCode::name);
        Self {
            source: error.component,
            kind: error.failure_kind(),
            detail: format!("Error {} {code}", error.code.expose()).trim_end().to_owned(),
            ..Self::new(FailureReason::ErrorResponse, Some(session))
        }
    }

    pub(crate) fn from_fault(fault: &Fault, session: ThreeDsSessionId) -> Self {
        let names = fault.elements.join(", ");
        let kind = FailureKind::from_code(fault.code);
        let detail = format!("Error {} {}: {names}", fault.code.code(), fault.code.name());
        Self {
            // The client cannot correct an invalid response.
            kind: if kind == FailureKind::TimedOut { kind } else { FailureKind::ResponseInvalid },
            detail: detail.trim_end_matches([':', ' ']).to_owned(),
            ..Self::new(FailureReason::InvalidResponse, Some(session))
        }
    }
}
