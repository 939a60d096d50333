//! Timeouts of open challenges. A timer does not keep its transaction alive.

use std::{sync::Arc, time::Duration};

use crate::{
    acs::challenge_result::{EndReason, finish_challenge},
    behavior::DecoupledBehavior,
    state::SimulatorState,
    transaction::{ChallengePhase, Transaction},
};

/// Limits the time until the first `CReq`.
pub(super) fn start_request_timer(state: &Arc<SimulatorState>, transaction: &Arc<Transaction>) {
    start_timer(
        state,
        transaction,
        state.timers.first_creq,
        ChallengePhase::AwaitingRequest,
        EndReason::NoChallengeRequest,
    );
}

/// Limits the time between two steps of the cardholder.
pub(super) fn start_interaction_timer(state: &Arc<SimulatorState>, transaction: &Arc<Transaction>) {
    start_timer(
        state,
        transaction,
        state.timers.interaction,
        ChallengePhase::InProgress,
        EndReason::InteractionTimeout,
    );
}

/// Ends a decoupled authentication with its result or a timeout.
pub(super) fn start_decoupled_timer(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    timeout: Duration,
) {
    let (delay, reason) = match state.behavior(transaction.details.scheme).decoupled {
        DecoupledBehavior::Normal if state.timers.decoupled < timeout => {
            (state.timers.decoupled, EndReason::Completed)
        }
        DecoupledBehavior::Normal | DecoupledBehavior::Timeout => {
            (timeout, EndReason::DecoupledTimeout)
        }
    };
    start_timer(state, transaction, delay, ChallengePhase::AwaitingRequest, reason);
}

fn start_timer(
    state: &Arc<SimulatorState>,
    transaction: &Arc<Transaction>,
    delay: Duration,
    phase: ChallengePhase,
    reason: EndReason,
) {
    let (state, weak) = (Arc::clone(state), Arc::downgrade(transaction));
    let task = tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        if let Some(transaction) = weak.upgrade() {
            finish_challenge(&state, &transaction, phase, reason);
        }
    });
    transaction.set_timer(task.abort_handle());
}
