//! The effects of an event, and the reasons for its rejection.

use crate::{
    authentication::AuthenticationParameters,
    code::{MethodCompletion, Status, codes},
    fault::{ErrorCode, Fault},
    format::TransId,
    message::{ARes, CRes, RReq, RRes},
};

codes! {
    /// The types of webhook events of a session.
    pub enum WebhookEventType {
        Created = "3ds.session.created" "3ds.session.created",
        MethodCompleted = "3ds.session.method-completed" "3ds.session.method-completed",
        Authenticated = "3ds.session.authenticated" "3ds.session.authenticated",
        ChallengeCompleted = "3ds.session.challenge-completed" "3ds.session.challenge-completed",
        DecoupledChallengeNotification = "3ds.session.decoupled-challenge-notification"
            "3ds.session.decoupled-challenge-notification",
        ChallengeResultRetrieved = "3ds.session.challenge-result-retrieved"
            "3ds.session.challenge-result-retrieved",
    }
}

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

/// Whether the secret in the address of a result matches the session. The caller compares it in
/// constant time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretCheck {
    Matches,
    Differs,
}

/// An event.
#[derive(Debug, Clone)]
pub enum StateMachineEvent {
    /// A browser reports that the page of the method URL completed; the id is from its form.
    MethodNotification {
        server_trans_id: TransId,
    },
    /// The time for the page of the method URL is over.
    MethodTimeout,
    /// The device information arrived.
    DeviceInfo,
    /// A client requests the authentication.
    Authenticate {
        parameters: AuthenticationParameters,
    },
    /// The `AReq` was not sent: no other component can have received it.
    RequestNotSent,
    Response {
        ares: Box<ARes>,
    },
    /// An `Erro` as the response, or a response that was invalid or rejected. An `Erro` from a
    /// browser is not such an event: any client can post one, and the result decides.
    Error,
    /// No response arrived, or the time for a decoupled authentication may be over.
    Timeout,
    Result {
        result: Box<RReq>,
        secret: SecretCheck,
    },
    /// A browser reports the end of the challenge.
    ChallengeNotification {
        response: Box<CRes>,
    },
    /// A client requests the result of the challenge.
    ResultRequested,
    /// The lifetime of the session may be over.
    Expire,
}
