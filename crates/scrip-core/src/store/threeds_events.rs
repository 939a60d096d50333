//! Events of 3-D Secure sessions that wait for delivery.

use crate::{store::StoreFuture, threeds::ThreeDsEventRecord, time::Timestamp};

/// Events of 3-D Secure sessions that wait for delivery.
/// Each method is one transaction.
pub trait ThreeDsEventStore: Send + Sync {
    /// Some of the events that wait to be delivered, in the order of their commits, behind this
    /// place; with each its own place.
    fn list_threeds_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, ThreeDsEventRecord)>>;

    /// Forgets some of the events older than this; how many.
    fn delete_expired_threeds_events(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
