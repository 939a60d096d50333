//! How many of the counted numbers a sliding window of time holds.

use std::{collections::HashMap, time::Duration};

use crate::time::Timestamp;

/// When each distinct number was last counted. Only the last time matters: every window that ends
/// now and holds an earlier time of the same number holds that one as well, and windows that ended
/// earlier were decided then.
#[derive(Debug, Default, Clone)]
pub(super) struct LastCounted(HashMap<[u8; 16], i64>);

impl LastCounted {
    pub(super) fn note(&mut self, number: [u8; 16], at: Timestamp) {
        let last = self.0.entry(number).or_insert(at.unix_ms);
        *last = at.unix_ms.max(*last);
    }

    /// Distinct numbers counted within the window that ends now. A number leaves the window when it
    /// is exactly as old as the window is long.
    pub(super) fn distinct(&self, now: Timestamp, window: Duration) -> u64 {
        let since = now.before(window).unix_ms;
        let within = self.0.values().filter(|at| **at > since).count();
        u64::try_from(within).unwrap_or(u64::MAX)
    }

    pub(super) fn holds(&self, number: &[u8; 16], now: Timestamp, window: Duration) -> bool {
        let since = now.before(window).unix_ms;
        self.0.get(number).is_some_and(|at| *at > since)
    }

    pub(super) fn forget_before(&mut self, since: Timestamp) {
        self.0.retain(|_, at| *at > since.unix_ms);
    }
}
