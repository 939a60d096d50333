//! `Erro`: the error message of EMV 3DS.

use crate::{
    fault::{Component, ErrorCode, Fault},
    format::{Alphanumeric, Digits, Text, TransId, Version, VersionNumber},
    message::{Document, Message, MessageType, record::record},
};

record! {
    /// An error. The code is stored as digits, because other components may use unknown codes.
    #[derive(Clone, PartialEq)]
    pub struct Erro {
        must message_version: VersionNumber = "messageVersion";
        may server_trans_id: TransId = "threeDSServerTransID";
        may acs_trans_id: TransId = "acsTransID";
        may ds_trans_id: TransId = "dsTransID";
        may sdk_trans_id: TransId = "sdkTransID";
        must code: Digits<3, 3> = "errorCode";
        must component: Component = "errorComponent";
        must description: Text<1, 2048> = "errorDescription";
        may detail: Text<1, 2048> = "errorDetail";
        may message_type: Alphanumeric<4, 4> = "errorMessageType";
    }
}

impl Message for Erro {
    const TYPE: MessageType = MessageType::Erro;
}

/// The message that an error refers to, as far as it could be read.
#[derive(Debug, Default)]
pub struct ErroSubject<'a> {
    pub document: Option<&'a Document>,
    /// The expected type, for a message that could not be read at all.
    pub expected: Option<MessageType>,
}

impl Erro {
    /// The `Erro` for a rejected message.
    #[must_use]
    pub fn for_fault(fault: &Fault, component: Component, subject: &ErroSubject<'_>) -> Self {
        let id = |name| subject.document.and_then(|it| it.trans_id(name));
        let version = subject.document.and_then(Document::version_number);
        let message_type = subject.document.map(Document::message_type).or(subject.expected);
        let detail = if fault.elements.is_empty() {
            fault.code.name().to_owned()
        } else {
            fault.elements.join(",")
        };
        Self {
            message_version: version.unwrap_or(Version::V220.number()),
            server_trans_id: id("threeDSServerTransID"),
            acs_trans_id: id("acsTransID"),
            ds_trans_id: id("dsTransID"),
            sdk_trans_id: id("sdkTransID"),
            code: Digits::from_trusted(fault.code.code()),
            component,
            description: Text::from_trusted(fault.code.name()),
            detail: Text::parse(&detail).ok(),
            message_type: message_type.and_then(|it| Alphanumeric::parse(it.code()).ok()),
        }
    }

    /// The code, if it is known.
    #[must_use]
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.code.expose())
    }

    /// The kind of the failure. An unknown code counts as an invalid response of the sender.
    #[must_use]
    pub fn failure_kind(&self) -> FailureKind {
        self.known_code().map_or(FailureKind::ResponseInvalid, FailureKind::from_code)
    }
}

/// Failures of an authentication, sorted by what a client can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    RequestInvalid,
    AccessDenied,
    NotFound,
    ServerFault,
    /// A new session is needed.
    ResponseInvalid,
    /// The request can be repeated.
    Unavailable,
    /// A new session is needed.
    TimedOut,
}

impl FailureKind {
    #[must_use]
    pub fn from_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::MessageInvalid
            | ErrorCode::VersionUnsupported
            | ErrorCode::ElementMissing
            | ErrorCode::CriticalExtensionUnknown
            | ErrorCode::FormatInvalid
            | ErrorCode::ElementDuplicate
            | ErrorCode::IsoCodeInvalid
            | ErrorCode::TransactionDataInvalid
            | ErrorCode::CategoryCodeInvalid => Self::RequestInvalid,
            ErrorCode::AccessDenied => Self::AccessDenied,
            ErrorCode::TransactionUnknown => Self::NotFound,
            ErrorCode::TimedOut => Self::TimedOut,
            ErrorCode::TransientFailure
            | ErrorCode::PermanentFailure
            | ErrorCode::ConnectionFailure => Self::ResponseInvalid,
            ErrorCode::SentLimitExceeded
            | ErrorCode::DecryptionFailure
            | ErrorCode::SerialNumberInvalid => Self::ServerFault,
        }
    }
}
