//! What the server does by itself: expiry, time, readiness, measurements.

use crate::{
    audit::{AuditRecord, NotedTime},
    measure::StoreMeasures,
    store::StoreFuture,
    time::Timestamp,
};

/// What the server does by itself: expiry, time, readiness, measurements.
/// Each method is one transaction.
pub trait Maintenance: Send + Sync {
    /// Removes some of what had ended by then, each with a record of its own, which is this one; how
    /// many. Concurrent sweeps remove different rows.
    fn sweep(&self, ending: Ending, ended: Timestamp, audit: AuditRecord)
    -> StoreFuture<'_, usize>;

    /// Erases some of the codes whose time was over by then; how many.
    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize>;

    /// The earlier of this time and that of a clock which all nodes share, if there is one: a node
    /// whose own clock is ahead must not destroy what others still serve.
    fn not_after(&self, at: Timestamp) -> StoreFuture<'_, Timestamp> {
        Box::pin(std::future::ready(Ok(at)))
    }

    /// Remembers how late it is. A server's clock never goes back, so neither does this, unless the
    /// operator has put that clock right.
    fn note_time(&self, noted: NotedTime) -> StoreFuture<'_, ()>;

    /// What was noted last. It is not checked here.
    fn known_time(&self) -> StoreFuture<'_, Option<NotedTime>>;

    /// Whether a read and a write would be served now.
    fn check_ready(&self) -> StoreFuture<'_, ()>;

    /// What was counted so far. Cheap enough to be asked every second.
    fn measures(&self) -> StoreMeasures;

    /// For the operator: what there is, and how much of it.
    fn status(&self) -> StoreFuture<'_, StoreStatus>;
}

/// What ends by itself and leaves a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Token,
    TokenIntent,
    Session,
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
