//! The state machine of a 3DS session: a state, an event and a time give a new state with effects,
//! or a rejection.
//!
//! The state machine does not wait, write or send. The caller must store the new state before it
//! runs an irreversible effect. The state after "authenticate" means that the outcome of the `AReq`
//! is unknown; if the process dies there, the stored session correctly says so.

mod challenge_result;
mod effect;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use effect::{
    SecretCheck, StateMachineEffect, StateMachineEvent, ThreeDsRejection, WebhookEventType,
};
pub use state::{
    MethodState, PendingChallenge, ThreeDsFailure, ThreeDsPhase, ThreeDsSession, UnixSeconds,
};
