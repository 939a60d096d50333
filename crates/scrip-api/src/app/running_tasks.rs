//! The running tasks that outlive their request. A stopping server waits for them.

use crate::app::in_flight::InFlightTasks;

#[derive(Debug, Default)]
pub struct RunningTasks {
    /// Calls to directory servers. Their outcome is stored even if the client has disconnected.
    pub authentications: InFlightTasks,
    /// Proxied calls with an idempotency key. Their outcome is stored even if the client has
    /// disconnected.
    pub calls: InFlightTasks,
    /// The deliverer, its attempts and the rotation of keys.
    pub deliveries: InFlightTasks,
}
