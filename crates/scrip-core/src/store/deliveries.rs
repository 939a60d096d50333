//! Deliveries of events to webhooks.

use crate::{
    Timestamp,
    audit::AuditRecord,
    change::CommitExtras,
    events::{AttemptResult, ClaimedDelivery, DeliveryRecord, WebhookKey},
    policy::PolicyPermit,
    types::{
        StoreFuture,
        id::{EventId, WebhookId},
    },
};

/// Deliveries of events to webhooks. New deliveries are written in the transaction of their event:
/// see [`CommitExtras::deliveries`]. Each method is one transaction.
pub trait DeliveryStore: Send + Sync {
    /// The webhooks with a pending delivery that is due, of all tenants. Never waits for a writer.
    fn list_due_webhooks(&self, now: Timestamp) -> StoreFuture<'_, Vec<WebhookKey>>;

    /// Claims due deliveries of a webhook for an attempt, the one that is due longest first. Until
    /// the lease ends, no other node claims them.
    fn claim_deliveries(
        &self,
        webhook: WebhookKey,
        claim: DeliveryClaim,
    ) -> StoreFuture<'_, Vec<ClaimedDelivery>>;

    /// Stores the results of attempts, except results of claims that are not current; returns how
    /// many were stored.
    fn finish_deliveries(
        &self,
        webhook: WebhookKey,
        results: Vec<AttemptResult>,
    ) -> StoreFuture<'_, usize>;

    /// Moves some of the deliveries of reads from the read log to the other deliveries; returns how
    /// many. An engine that writes both in one database has none.
    fn move_read_deliveries(&self) -> StoreFuture<'_, usize> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Whether a delivery of the webhook succeeded at or after this time.
    fn has_delivered_since(&self, webhook: WebhookKey, since: Timestamp) -> StoreFuture<'_, bool>;

    /// Deliveries of a webhook, newest event first, before this event.
    fn list_deliveries<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        webhook: WebhookId,
        before: Option<EventId>,
        deliveries_max: usize,
    ) -> StoreFuture<'a, Vec<DeliveryRecord>>;

    /// Writes the deliveries in `extras`, such as of a test event, with its other rows.
    fn insert_deliveries(&self, permit: PolicyPermit, extras: CommitExtras) -> StoreFuture<'_, ()>;

    /// Makes some of the finished deliveries of a webhook pending again; writes `extras` with them.
    fn replay_deliveries(
        &self,
        permit: PolicyPermit,
        replay: DeliveryReplay,
        extras: Option<CommitExtras>,
    ) -> StoreFuture<'_, ReplayedDeliveries>;

    /// The webhooks with stored deliveries, of all tenants, also those of deleted webhooks.
    fn list_webhooks_with_deliveries(&self) -> StoreFuture<'_, Vec<WebhookKey>>;

    /// Ends some of the deliveries that are beyond these bounds. If an event was not delivered, the
    /// audit record is appended with the number of these events.
    fn trim_deliveries(
        &self,
        webhook: WebhookKey,
        bounds: DeliveryBounds,
        audit: AuditRecord,
    ) -> StoreFuture<'_, TrimmedDeliveries>;

    /// Deletes some of the deliveries of a webhook that does not exist; returns how many. Deletes
    /// nothing of a webhook that has a row.
    fn delete_orphan_deliveries(&self, webhook: WebhookKey) -> StoreFuture<'_, usize>;

    /// The number of pending deliveries of all tenants, and the earliest time since which one of them
    /// is pending: for metrics.
    fn count_pending_deliveries(&self) -> StoreFuture<'_, (u64, Option<Timestamp>)>;
}

#[derive(Debug, Clone, Copy)]
pub struct DeliveryClaim {
    pub now: Timestamp,
    pub lease_until: Timestamp,
    pub deliveries_max: usize,
}

/// Finished deliveries to repeat, in the order of their event ids.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryReplay {
    pub webhook: WebhookId,
    /// The time of the oldest event.
    pub from: Timestamp,
    /// Only events after this one.
    pub after: Option<EventId>,
    pub now: Timestamp,
    pub deliveries_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayedDeliveries {
    pub count: usize,
    /// The event at which the next step continues; `None` when all are done.
    pub last: Option<EventId>,
}

#[derive(Debug, Clone, Copy)]
pub struct DeliveryBounds {
    /// Deliveries that are pending since an earlier time are exhausted. A delivery is pending since
    /// its event, or since its last replay.
    pub oldest_pending: Timestamp,
    /// Finished deliveries of older events are deleted.
    pub oldest_finished: Timestamp,
    /// The oldest deliveries beyond this number are deleted, also pending ones.
    pub deliveries_max: usize,
    /// The largest number of rows that one call changes.
    pub step: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrimmedDeliveries {
    /// Pending deliveries that became too old.
    pub exhausted: usize,
    /// Pending deliveries that were deleted.
    pub dropped: usize,
    /// Finished deliveries that were deleted.
    pub deleted: usize,
}
