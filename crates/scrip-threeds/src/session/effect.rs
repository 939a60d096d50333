//! What follows from an event, and why an event is refused.

use crate::{
    code::{MethodCompletion, Status},
    fault::{ErrorCode, Fault},
    message::RRes,
    webhook::WebhookEventType,
};

/// Something to be done, after the new state is written.
#[derive(Debug, Clone, PartialEq)]
pub enum StateMachineEffect {
    /// Send the `AReq`, with this said of the method.
    SendAReq { method: MethodCompletion },
    /// Answer the result.
    RespondToResult { response: Box<RRes> },
    /// Tell those who listen. A status where the event has one.
    Emit { event: WebhookEventType, status: Option<Status> },
}

/// Why nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThreeDsRejection {
    #[error("the session has expired")]
    Expired,
    #[error("the session was authenticated already, or its fate is unknown")]
    AlreadyAuthenticated,
    #[error("the device has not told what is needed of it")]
    DeviceInfoMissing,
    #[error("the device's information cannot change any more")]
    DeviceInfoTooLate,
    #[error("the message is about another session")]
    OtherSession(Fault),
    #[error("the message does not fit the session")]
    Mismatch(Fault),
    #[error("the result came too late")]
    ResultTooLate,
    #[error("there is no challenge that this could be the result of")]
    NoChallenge,
    #[error("there is no result yet")]
    ResultNotReady,
    #[error("nothing waits for this")]
    Unexpected,
}

impl ThreeDsRejection {
    /// What the sender of a message is answered, where the event was one.
    #[must_use]
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
