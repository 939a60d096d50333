//! The state of one host, and of one connection to it.

use std::{
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicUsize},
};

use tokio::sync::Semaphore;

use crate::destination::{
    authority::{HostTls, HttpVersions},
    behavior::DestinationBehavior,
    request::DestinationRequest,
};

/// One host and everything that it received.
pub(super) struct HostState {
    pub(super) name: String,
    pub(super) tls: HostTls,
    pub(super) versions: HttpVersions,
    /// One behavior per request. The last one is repeated.
    pub(super) behaviors: Mutex<VecDeque<DestinationBehavior>>,
    pub(super) received: Mutex<Vec<DestinationRequest>>,
    /// Connections, including those without a request.
    pub(super) connections: AtomicUsize,
    /// A gated response waits for a permit.
    pub(super) gate: Semaphore,
}

impl HostState {
    fn next_behavior(&self) -> DestinationBehavior {
        let mut behaviors = self.behaviors.lock().unwrap();
        let next = if behaviors.len() > 1 { behaviors.pop_front() } else { None };
        next.or_else(|| behaviors.front().cloned()).unwrap_or(DestinationBehavior::Echo)
    }

    /// Waits as the behavior says. Returns the reaction, which is neither gated nor delayed.
    pub(super) async fn next_reaction(&self) -> DestinationBehavior {
        let mut behavior = self.next_behavior();
        loop {
            behavior = match behavior {
                DestinationBehavior::Gated(reaction) => {
                    self.gate.acquire().await.unwrap().forget();
                    *reaction
                }
                DestinationBehavior::Delayed(delay, reaction) => {
                    tokio::time::sleep(delay).await;
                    *reaction
                }
                DestinationBehavior::Echo
                | DestinationBehavior::Respond(_)
                | DestinationBehavior::Raw(_)
                | DestinationBehavior::RawThenSilent(_)
                | DestinationBehavior::Silent
                | DestinationBehavior::HangUp
                | DestinationBehavior::Endless => return behavior,
            };
        }
    }

    pub(super) fn record(&self, request: DestinationRequest) {
        self.received.lock().unwrap().push(request);
    }
}

/// The facts that every request of a connection repeats.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionInfo {
    pub(super) number: usize,
    pub(super) client_certificate: Option<Vec<u8>>,
    pub(super) tls_version: String,
}
