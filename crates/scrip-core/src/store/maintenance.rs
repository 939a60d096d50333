//! Background work of the server: expiry, clock watermark, readiness, metrics.

use crate::{
    Timestamp,
    audit::{AuditRecord, SignedWatermark},
    events::ExpiryEvents,
    types::{StoreFuture, metrics::StoreMetrics},
};

/// Background work of the server: expiry, clock watermark, readiness, metrics. Each method is one
/// transaction.
pub trait Maintenance: Send + Sync {
    /// Deletes some of the entities that had expired by this time, each with its own copy of this
    /// audit record, and with the deliveries of the expiry of a token; returns how many. Concurrent
    /// calls delete different rows.
    fn delete_expired(
        &self,
        entity: ExpiringEntity,
        expired_by: Timestamp,
        audit: AuditRecord,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize>;

    /// Erases some of the CVCs that had expired by this time, with the deliveries of their events;
    /// returns how many.
    fn erase_expired_cvcs(
        &self,
        expired_by: Timestamp,
        events: ExpiryEvents,
    ) -> StoreFuture<'_, usize>;

    /// The earlier of this time and the time of a clock that all nodes share, if there is one: a
    /// node with a clock that is ahead must not delete data that other nodes still serve.
    fn cap_at_shared_clock(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(std::future::ready(Ok(at)))
    }

    /// Saves the clock watermark. The clock of a server never decreases, so neither does the
    /// watermark, unless the operator has corrected the clock.
    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()>;

    /// The last saved watermark. Its MAC is not checked here.
    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>>;

    /// Whether the store can serve a read and a write now. Writes nothing.
    fn check_ready(&self) -> StoreFuture<'_, ()>;

    /// The condition of the storage. Reads one atomic value.
    fn condition(&self) -> StoreCondition {
        StoreCondition::Up
    }

    /// Finds out whether the storage has failed or recovered, and updates the condition. An engine
    /// that reports failed commits writes only while its condition is not `Up`.
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The current metrics. Cheap enough to call every second.
    fn metrics(&self) -> StoreMetrics;

    /// For the operator: the row counts and sizes of the store.
    fn status(&self) -> StoreFuture<'_, StoreStatus>;
}

/// Whether the storage accepts reads and writes. A worse condition is greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreCondition {
    #[default]
    Up,
    /// A commit failed, for example because the file system is read-only. No later commit of the
    /// engine's own has succeeded.
    CommitFailed,
    /// A commit failed because no space is left.
    DiskFull,
    /// The database server does not respond.
    Unreachable,
}

/// Entities that expire, with an audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiringEntity {
    Token,
    TokenIntent,
    ThreeDsSession,
}

/// The row counts and sizes of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub engine: &'static str,
    pub schema: u32,
    /// The versions of tenants' sealing keys, and the number of tenants with each.
    pub key_versions: Vec<(u32, u64)>,
    /// Name and count, in display order.
    pub counts: Vec<(&'static str, u64)>,
    pub sizes_bytes: Vec<(&'static str, u64)>,
}
