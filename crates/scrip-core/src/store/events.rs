//! Events of 3-D Secure sessions that wait for delivery.

use crate::{store::StoreFuture, threeds::EventRecord, time::Timestamp};

/// Events of 3-D Secure sessions that wait for delivery.
/// Each method is one transaction.
pub trait EventStore: Send + Sync {
    /// Some of the events that wait to be delivered, in the order of their commits, behind this
    /// place; with each its own place.
    fn list_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, EventRecord)>>;

    /// Forgets some of the events older than this; how many.
    fn forget_events(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
