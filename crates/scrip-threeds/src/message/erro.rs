//! `Erro`: the error message of EMV 3DS.

use crate::{
    fault::{Component, ErrorCode},
    format::{Alphanumeric, Digits, Text, TransId, VersionNumber},
    message::{Message, MessageType, record::record},
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

impl Erro {
    /// The code, if it is known.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.code.expose())
    }

    /// The kind of the failure. An unknown code counts as an invalid response of the sender.
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
