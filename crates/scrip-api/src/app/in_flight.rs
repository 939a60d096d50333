//! Tasks that continue after their client has disconnected. A stopping server waits for them.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// Tracks the running tasks.
#[derive(Debug)]
pub struct InFlightTasks(watch::Sender<()>);

/// Marks one task as running until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    _receiver: watch::Receiver<()>,
}

impl Default for InFlightTasks {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl InFlightTasks {
    pub(crate) fn track(&self) -> InFlightGuard {
        InFlightGuard { _receiver: self.0.subscribe() }
    }

    /// Returns whether all tasks ended within the timeout.
    pub async fn wait_until_idle(&self, timeout_after: Duration) -> bool {
        timeout(timeout_after, self.0.closed()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_until_idle_waits_for_the_last_task() {
        let (tasks, wait_time) = (InFlightTasks::default(), Duration::from_millis(1));
        assert!(tasks.wait_until_idle(wait_time).await);
        let (first_task, second_task) = (tasks.track(), tasks.track());
        assert!(!tasks.wait_until_idle(wait_time).await);
        drop(first_task);
        assert!(!tasks.wait_until_idle(wait_time).await);
        drop(second_task);
        assert!(tasks.wait_until_idle(wait_time).await);
    }
}
