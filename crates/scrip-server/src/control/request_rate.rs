//! The rate of requests of each operator: a request costs a record in the audit log, or a line in
//! the log of the server.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A user may send this many requests at once, and then one in each interval. A command that waits
/// for an approval sends one a second.
const BURST: u32 = 60;
const INTERVAL: Duration = Duration::from_millis(50);

/// The time at which the burst of each user is complete again.
#[derive(Debug, Default)]
pub(super) struct RequestRates(Mutex<HashMap<u32, Duration>>);

impl RequestRates {
    /// Counts a request. Returns whether the user may send it.
    pub(super) fn try_count(&self, uid: u32, now: Duration) -> bool {
        let mut full_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full_at.retain(|_, at| *at > now);
        let at = full_at.get(&uid).copied().unwrap_or(now).saturating_add(INTERVAL);
        let is_allowed = at.saturating_sub(now) <= INTERVAL.saturating_mul(BURST);
        if is_allowed {
            full_at.insert(uid, at);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_sends_a_burst_and_then_twenty_requests_a_second() {
        let rates = RequestRates::default();
        let start = Duration::from_secs(100);
        let count = |uid, now| (0..100).filter(|_| rates.try_count(uid, now)).count();
        assert_eq!(count(1, start), 60);
        assert_eq!(count(2, start), 60, "another user");
        assert_eq!(count(1, start + Duration::from_secs(1)), 20);
        assert_eq!(count(1, start + Duration::from_secs(60)), 60);
        assert_eq!(rates.0.lock().unwrap().len(), 1, "a user without requests is forgotten");
    }
}
