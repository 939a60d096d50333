//! The results of the webhook measurements.

use crate::measurements::webhooks::{
    burst::BurstResult, hanging_receiver::HangingReceiverResult, setup::Engine, vault::CreateTurn,
};

/// Turns without a webhook and with one. There is one more without it, so that each turn with it is
/// between two without.
#[derive(Debug, Default)]
pub(super) struct TurnComparison {
    pub(super) without: Vec<CreateTurn>,
    pub(super) with: Vec<CreateTurn>,
}

#[derive(Debug)]
pub(crate) struct WebhooksResults {
    pub(super) engine: Engine,
    /// The webhook wants other events.
    pub(super) other_event: TurnComparison,
    /// Events are written and delivered.
    pub(super) delivered: TurnComparison,
    /// Events are written and not delivered.
    pub(super) written: TurnComparison,
    pub(super) burst: BurstResult,
    pub(super) hanging: HangingReceiverResult,
}
