//! Deliveries of events to webhooks.
//!
//! [`deliverer`] finds webhooks with due deliveries, and runs one [`worker`] for each. A worker
//! claims deliveries, sends them ([`attempt`]) and stores the results. [`sweep`] deletes old
//! deliveries.

pub mod attempt;
mod attempt_slots;
mod deliverer;
mod delivery_context;
mod disable;
mod opened_webhook;
pub mod signer;
mod sweep;
mod webhook_state;
mod worker;

use std::sync::Arc;

use crate::{
    background::webhooks::deliverer::Deliverer, node::Node, periodic_tasks::restart_after_panic,
};

/// Starts the deliverer, unless this node does not deliver, and the sweep.
pub(crate) fn start(node: &Node) {
    if node.settings.delivers_webhooks {
        let deliverer = Arc::new(Deliverer::new(Arc::clone(&node.app)));
        restart_after_panic("deliver_to_webhooks", move || Arc::clone(&deliverer).run());
    }
    let app = Arc::clone(&node.app);
    restart_after_panic("sweep_deliveries", move || sweep::sweep_deliveries(Arc::clone(&app)));
}
