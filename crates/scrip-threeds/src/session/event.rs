//! The events of a session.

use crate::{
    authentication::AuthenticationParameters,
    format::TransId,
    message::{ARes, CRes, RReq},
};

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
