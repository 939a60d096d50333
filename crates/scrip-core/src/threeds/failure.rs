//! A failure of somebody whom we had to ask, as a client is told of it.

use scrip_threeds::{
    fault::{Component, ErrorCode, Fault},
    message::{Erro, FailureKind},
};

use crate::{id::ThreeDsSessionId, threeds::DirectoryServerError};

/// Never a value: codes, names of elements, and words of ours.
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
    /// No scheme has this card in its ranges.
    CardNotSupported,
    /// The operator connected no directory server.
    NotConnected,
    /// A scheme is connected, but has not told its ranges yet.
    RangesUnavailable,
    /// Nothing was sent: the session can be tried again.
    NotSent,
    TimedOut,
    Broken,
    /// The other side answered with an error.
    ErrorResponse,
    /// The other side answered with something that cannot be believed.
    InvalidResponse,
}

impl ServiceFailure {
    pub(crate) fn new(reason: FailureReason, session: Option<ThreeDsSessionId>) -> Self {
        let (source, kind, message, detail) = match reason {
            FailureReason::CardNotSupported => (
                Component::DirectoryServer,
                FailureKind::NotFound,
                "The card is not supported by any connected card scheme",
                "The number is in no range that a directory server has told",
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
                "The directory server did not answer in time",
                "What became of the request is unknown: create a new session",
            ),
            FailureReason::Broken => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The directory server did not give a whole answer",
                "What became of the request is unknown: create a new session",
            ),
            FailureReason::ErrorResponse => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The request was answered with an error",
                "",
            ),
            FailureReason::InvalidResponse => (
                Component::DirectoryServer,
                FailureKind::ResponseInvalid,
                "The answer is not valid",
                "",
            ),
        };
        let detail = detail.to_owned();
        Self { reason, session, source, kind, message, detail }
    }

    pub(crate) fn from_directory_server_error(
        error: DirectoryServerError,
        session: ThreeDsSessionId,
    ) -> Self {
        let reason = match error {
            DirectoryServerError::NotSent => FailureReason::NotSent,
            DirectoryServerError::TimedOut => FailureReason::TimedOut,
            DirectoryServerError::Broken => FailureReason::Broken,
        };
        Self::new(reason, Some(session))
    }

    /// The other side's own texts are not told on: they may hold anything.
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
            // Whatever is wrong with an answer is not the client's to correct.
            kind: if kind == FailureKind::TimedOut { kind } else { FailureKind::ResponseInvalid },
            detail: detail.trim_end_matches([':', ' ']).to_owned(),
            ..Self::new(FailureReason::InvalidResponse, Some(session))
        }
    }
}
