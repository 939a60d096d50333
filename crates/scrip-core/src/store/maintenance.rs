//! What the server does by itself: expiry, time, readiness, measurements.

use crate::{
    audit::{AuditRecord, SignedWatermark},
    metrics::StoreMetrics,
    store::StoreFuture,
    time::Timestamp,
};

/// What the server does by itself: expiry, time, readiness, measurements.
/// Each method is one transaction.
pub trait Maintenance: Send + Sync {
    /// Removes some of what had ended by then, each with a record of its own, which is this one; how
    /// many. Concurrent sweeps remove different rows.
    fn delete_expired(
        &self,
        ending: ExpiringEntity,
        expired_by: Timestamp,
        audit: AuditRecord,
    ) -> StoreFuture<'_, usize>;

    /// Erases some of the codes whose time was over by then; how many.
    fn erase_expired_cvcs(&self, expired_by: Timestamp) -> StoreFuture<'_, usize>;

    /// The earlier of this time and that of a clock which all nodes share, if there is one: a node
    /// whose own clock is ahead must not destroy what others still serve.
    fn cap_at_shared_clock(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(std::future::ready(Ok(at)))
    }

    /// Remembers how late it is. A server's clock never goes back, so neither does this, unless the
    /// operator has put that clock right.
    fn save_watermark(&self, watermark: SignedWatermark) -> StoreFuture<'_, ()>;

    /// What was noted last. It is not checked here.
    fn load_watermark(&self) -> StoreFuture<'_, Option<SignedWatermark>>;

    /// Whether a read and a write would be served now.
    fn check_ready(&self) -> StoreFuture<'_, ()>;

    /// What was counted so far. Cheap enough to be asked every second.
    fn metrics(&self) -> StoreMetrics;

    /// For the operator: what there is, and how much of it.
    fn status(&self) -> StoreFuture<'_, StoreStatus>;
}

/// What ends by itself and leaves a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiringEntity {
    Token,
    TokenIntent,
    ThreeDsSession,
}

/// How much of everything an engine holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    pub engine: &'static str,
    pub schema: u32,
    /// Versions of tenants' sealing keys, and how many tenants have each.
    pub key_versions: Vec<(u32, u64)>,
    /// Name and number, in an order to show them in.
    pub counts: Vec<(&'static str, u64)>,
    pub sizes_bytes: Vec<(&'static str, u64)>,
}
