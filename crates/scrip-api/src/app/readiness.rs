//! What the last check of readiness found.

use std::time::Duration;

use tokio::sync::Mutex;

/// The outcome of the last readiness check.
#[derive(Debug, Default)]
pub struct Readiness(pub(crate) Mutex<Option<Checked>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) at: Duration,
    pub(crate) is_ready: bool,
}
