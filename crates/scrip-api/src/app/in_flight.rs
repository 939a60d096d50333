//! Tasks that continue after their client has disconnected. A stopping server waits for them.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// Tracks the running tasks.
#[derive(Debug)]
pub struct InFlightTasks(watch::Sender<bool>);

/// Marks one task as running until it is dropped.
#[derive(Debug, Clone)]
pub struct InFlightGuard {
    /// Whether the task must stop.
    stop: watch::Receiver<bool>,
}

impl Default for InFlightTasks {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl InFlightTasks {
    pub fn track(&self) -> InFlightGuard {
        InFlightGuard { stop: self.0.subscribe() }
    }

    /// Returns whether all tasks ended within the timeout.
    pub async fn wait_until_idle(&self, timeout_after: Duration) -> bool {
        timeout(timeout_after, self.0.closed()).await.is_ok()
    }

    /// Stops the tasks, also those that start later.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl InFlightGuard {
    /// Whether the task must stop.
    pub fn must_stop(&self) -> bool {
        *self.stop.borrow()
    }

    /// Completes when the task must stop.
    pub async fn wait_for_stop(&mut self) {
        if self.stop.wait_for(|it| *it).await.is_err() {
            // The application is gone, and with it everything that could stop the task.
            std::future::pending::<()>().await;
        }
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

    #[tokio::test]
    async fn task_that_waits_for_stop_ends_when_the_server_stops() {
        let tasks = InFlightTasks::default();
        let mut guard = tasks.track();
        let task = tokio::spawn(async move { guard.wait_for_stop().await });
        assert!(!tasks.wait_until_idle(Duration::from_millis(1)).await);
        assert!(!tasks.track().must_stop());
        tasks.stop();
        assert!(tasks.track().must_stop());
        assert!(tasks.wait_until_idle(Duration::from_secs(30)).await);
        task.await.unwrap();
    }
}
