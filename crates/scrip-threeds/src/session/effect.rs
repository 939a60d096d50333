//! What follows from an event, and why an event is refused.

use crate::{
    code::{MethodCompletion, Status},
    fault::{ErrorCode, Fault},
    message::RRes,
    webhook::EventType,
};

/// Something to be done, after the new state is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send the `AReq`, with this said of the method.
    SendRequest { method: MethodCompletion },
    /// Answer the result.
    AnswerResult { answer: Box<RRes> },
    /// Tell those who listen. A status where the event has one.
    Emit { event: EventType, status: Option<Status> },
}

/// Why nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the session has expired")]
    Expired,
    #[error("the session was authenticated already, or its fate is unknown")]
    AlreadyAuthenticated,
    #[error("the device has not told what is needed of it")]
    DeviceMissing,
    #[error("the device's information cannot change any more")]
    TooLateForDevice,
    #[error("the message is about another session")]
    OtherSession(Fault),
    #[error("the message does not fit the session")]
    Unfitting(Fault),
    #[error("the result came too late")]
    TooLate,
    #[error("there is no challenge that this could be the result of")]
    NoChallenge,
    #[error("there is no result yet")]
    NoResultYet,
    #[error("nothing waits for this")]
    Unexpected,
}

impl Refusal {
    /// What the sender of a message is answered, where the event was one.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::OtherSession(fault) | Self::Unfitting(fault) => fault.clone(),
            Self::TooLate => Fault::of(ErrorCode::TimedOut),
            Self::Expired
            | Self::AlreadyAuthenticated
            | Self::DeviceMissing
            | Self::TooLateForDevice
            | Self::NoChallenge
            | Self::NoResultYet
            | Self::Unexpected => Fault::at(ErrorCode::TransactionUnknown, "threeDSServerTransID"),
        }
    }
}
