//! The clock of signatures and credentials.

use std::sync::Arc;

/// The current time in seconds since 1970. Signatures and credentials depend on it.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;
