//! Events of 3-D Secure sessions that wait for delivery.

use crate::{store::StoreFuture, threeds::ThreeDsEventRecord, time::Timestamp};

/// Events of 3-D Secure sessions that wait for delivery. Each method is one transaction.
pub trait ThreeDsEventStore: Send + Sync {
    /// Some of the undelivered events after this position, in the order of their commits, each with
    /// its position.
    fn list_threeds_events(
        &self,
        after: i64,
        events_max: usize,
    ) -> StoreFuture<'_, Vec<(i64, ThreeDsEventRecord)>>;

    /// Deletes some of the events older than this time; returns how many.
    fn delete_expired_threeds_events(&self, before: Timestamp) -> StoreFuture<'_, usize>;
}
