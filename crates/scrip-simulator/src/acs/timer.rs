//! What happens when nobody does anything. A timer does not keep its transaction alive.

use std::{sync::Arc, time::Duration};

use crate::{
    acs::finish::{End, finish},
    knob::Decoupled,
    transaction::{Phase, Transaction},
    world::World,
};

/// The browser or the app has some time to come.
pub(super) fn await_request(world: &Arc<World>, transaction: &Arc<Transaction>) {
    start(world, transaction, world.timers.first_creq, Phase::Waiting, End::NoRequest);
}

/// The cardholder has some time for each step.
pub(super) fn await_step(world: &Arc<World>, transaction: &Arc<Transaction>) {
    start(world, transaction, world.timers.interaction, Phase::Shown, End::TooSlow);
}

/// The cardholder answers somewhere else, or does not.
pub(super) fn ask_elsewhere(
    world: &Arc<World>,
    transaction: &Arc<Transaction>,
    patience: Duration,
) {
    let (after, end) = match world.knobs(transaction.facts.scheme).decoupled {
        Decoupled::Normal if world.timers.decoupled < patience => {
            (world.timers.decoupled, End::Scripted)
        }
        Decoupled::Normal | Decoupled::Timeout => (patience, End::DecoupledTimeout),
    };
    start(world, transaction, after, Phase::Waiting, end);
}

fn start(
    world: &Arc<World>,
    transaction: &Arc<Transaction>,
    after: Duration,
    from: Phase,
    end: End,
) {
    let (world, weak) = (Arc::clone(world), Arc::downgrade(transaction));
    let task = tokio::spawn(async move {
        tokio::time::sleep(after).await;
        if let Some(transaction) = weak.upgrade() {
            finish(&world, &transaction, from, end);
        }
    });
    transaction.set_timer(task.abort_handle());
}
