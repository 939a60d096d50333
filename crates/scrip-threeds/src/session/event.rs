//! What happens to a session.

use crate::{
    authentication::AuthenticationParameters,
    format::TransId,
    message::{ARes, CRes, RReq},
};

/// Whether the secret in the address of a result was the session's. It is compared where secrets are,
/// in constant time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretCheck {
    Matches,
    Differs,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum StateMachineEvent {
    /// A browser says that the method page has run; the id is from the form it brought.
    MethodNotification {
        server_trans_id: TransId,
    },
    /// The method's window is over.
    MethodTimeout,
    /// The device has told of itself.
    DeviceInfo,
    /// A client asks to authenticate.
    Authenticate {
        parameters: AuthenticationParameters,
    },
    /// The `AReq` did not leave: nobody can have seen it.
    RequestNotSent,
    Response {
        ares: Box<ARes>,
    },
    /// An `Erro` in place of an answer, or an answer that could not be read or was refused. An `Erro`
    /// that a browser brings is none: anybody can post it, and the result decides.
    Error,
    /// No answer came, or a decoupled authentication's time is over.
    Timeout,
    Result {
        result: Box<RReq>,
        secret: SecretCheck,
    },
    /// A browser says that the challenge is over.
    ChallengeNotification {
        response: Box<CRes>,
    },
    /// A client asks for the result of the challenge.
    ResultRequested,
    /// The session's time may be over.
    Expire,
}
