//! The effects of an event, and the reasons for its rejection.

use crate::{
    code::{MethodCompletion, Status},
    fault::{ErrorCode, Fault},
    message::RRes,
    webhook::WebhookEventType,
};

/// An effect to run after the new state is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum StateMachineEffect {
    /// Send the `AReq` with this method completion.
    SendAReq { method: MethodCompletion },
    /// Respond to the result.
    RespondToResult { response: Box<RRes> },
    /// Emit a webhook event, with a status if the event has one.
    Emit { event: WebhookEventType, status: Option<Status> },
}

/// Why an event was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThreeDsRejection {
    #[error("the session has expired")]
    Expired,
    #[error("the session was already authenticated, or the outcome of its AReq is unknown")]
    AlreadyAuthenticated,
    #[error("device information is missing")]
    DeviceInfoMissing,
    #[error("device information can no longer change")]
    DeviceInfoTooLate,
    #[error("the message is about another session")]
    OtherSession(Fault),
    #[error("the message contradicts the session")]
    Mismatch(Fault),
    #[error("the result arrived too late")]
    ResultTooLate,
    #[error("no open challenge for this result")]
    NoChallenge,
    #[error("there is no result yet")]
    ResultNotReady,
    #[error("unexpected event in this state")]
    Unexpected,
}

impl ThreeDsRejection {
    /// The fault for the `Erro` to the sender, if the event was a message.
    pub fn fault(&self) -> Fault {
        match self {
            Self::OtherSession(fault) | Self::Mismatch(fault) => fault.clone(),
            Self::ResultTooLate => Fault::new(ErrorCode::TimedOut),
            Self::Expired
            | Self::AlreadyAuthenticated
            | Self::DeviceInfoMissing
            | Self::DeviceInfoTooLate
            | Self::NoChallenge
            | Self::ResultNotReady
            | Self::Unexpected => {
                Fault::for_element(ErrorCode::TransactionUnknown, "threeDSServerTransID")
            }
        }
    }
}
