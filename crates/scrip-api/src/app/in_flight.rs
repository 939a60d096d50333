//! Work that goes on without its client, and that a server which stops has to wait for.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// Everything that has begun and not ended.
#[derive(Debug)]
pub struct InFlightTasks(watch::Sender<()>);

/// One of them, until it is dropped.
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

    /// Whether all of it ended within that time.
    pub async fn wait_until_idle(&self, timeout_after: Duration) -> bool {
        timeout(timeout_after, self.0.closed()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_until_idle_waits_for_the_last_task() {
        let (ongoing, moment) = (InFlightTasks::default(), Duration::from_millis(1));
        assert!(ongoing.wait_until_idle(moment).await);
        let (one, other) = (ongoing.track(), ongoing.track());
        assert!(!ongoing.wait_until_idle(moment).await);
        drop(one);
        assert!(!ongoing.wait_until_idle(moment).await);
        drop(other);
        assert!(ongoing.wait_until_idle(moment).await);
    }
}
