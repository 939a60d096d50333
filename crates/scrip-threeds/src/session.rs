//! The session of one authentication, as a machine: a state, an event and a time give a new state and
//! what is to be done, or a refusal.
//!
//! Nothing here waits, writes or sends. Whoever runs it writes the new state before anything that
//! cannot be taken back: the state after "authenticate" says that the fate of the `AReq` is unknown,
//! and a process that dies there leaves just that behind.

mod challenge_result;
mod effect;
mod event;
mod state;
mod step;

pub use effect::{StateMachineEffect, ThreeDsRejection};
pub use event::{SecretCheck, StateMachineEvent};
pub use state::{
    MethodState, PendingChallenge, ThreeDsFailure, ThreeDsPhase, ThreeDsSession, UnixSeconds,
};

#[cfg(test)]
mod tests;
