//! Results of attempts that are not stored yet.

use std::time::Duration;

use scrip_core::events::AttemptResult;
use tokio::time::Instant;

use crate::background::webhooks::attempt::LEASE;

/// Results are stored together: at this number, or at this age of the first one.
const RESULTS_MAX: usize = 64;
const STORE_AFTER: Duration = Duration::from_millis(50);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct ResultBuffer {
    results: Vec<AttemptResult>,
    /// When the results are stored.
    store_at: Option<Instant>,
    /// When results that cannot be stored are given up.
    give_up_at: Option<Instant>,
    /// Whether storing these results has failed.
    has_failed: bool,
}

impl ResultBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub(super) fn store_at(&self) -> Option<Instant> {
        self.store_at
    }

    pub(super) fn push(&mut self, result: AttemptResult, now: Instant) {
        self.results.push(result);
        self.store_at.get_or_insert(now + STORE_AFTER);
        self.give_up_at.get_or_insert(now + LEASE);
        if self.results.len() >= RESULTS_MAX && !self.has_failed {
            self.store_at = Some(now);
        }
    }

    /// The results, if it is time to store them. `is_last` if no other result follows soon.
    pub(super) fn due_results(&self, now: Instant, is_last: bool) -> Option<Vec<AttemptResult>> {
        let is_time = self.store_at.is_some_and(|it| it <= now);
        let is_due = is_time || (is_last && !self.has_failed);
        (is_due && !self.is_empty()).then(|| self.results.clone())
    }

    /// The results are stored.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Plans another try. Returns whether the results were given up: their leases have ended, so
    /// their attempts are repeated.
    pub(super) fn retry_or_give_up(&mut self, now: Instant) -> bool {
        let is_over = self.give_up_at.is_some_and(|it| it <= now);
        if is_over {
            self.clear();
        } else {
            (self.has_failed, self.store_at) = (true, Some(now + PAUSE_AFTER_FAILURE));
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::{Timestamp, events::DeliveryChange, types::id::EventId};
    use uuid::Uuid;

    use super::*;

    fn result(number: u128) -> AttemptResult {
        AttemptResult {
            event: EventId(Uuid::from_u128(number)),
            attempts: 1,
            change: DeliveryChange::Deliver,
            at: Timestamp { unix_ms: 0 },
            status: Some(200),
            error: None,
        }
    }

    #[tokio::test]
    async fn results_are_stored_by_number_by_age_or_if_no_other_follows() {
        let (mut buffer, now) = (ResultBuffer::default(), Instant::now());
        assert_eq!(buffer.due_results(now, true), None);
        buffer.push(result(1), now);
        assert_eq!(buffer.due_results(now, false), None);
        assert_eq!(buffer.due_results(now, true).unwrap().len(), 1);
        assert_eq!(buffer.due_results(now + STORE_AFTER, false).unwrap().len(), 1);
        (2..65).for_each(|it| buffer.push(result(it), now));
        assert_eq!(buffer.due_results(now, false).unwrap().len(), 64);
    }

    #[tokio::test]
    async fn results_that_cannot_be_stored_are_kept_until_their_leases_end() {
        let (mut buffer, now) = (ResultBuffer::default(), Instant::now());
        buffer.push(result(1), now);
        assert!(!buffer.retry_or_give_up(now));
        assert_eq!(buffer.due_results(now, true), None, "there is a pause");
        assert!(buffer.due_results(now + PAUSE_AFTER_FAILURE, false).is_some());
        assert!(buffer.retry_or_give_up(now + LEASE));
        assert!(buffer.is_empty());
    }
}
