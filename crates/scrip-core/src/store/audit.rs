//! The audit log and the read log: records, chains and their heads.

use crate::{
    audit::{Access, Chain, Checkpoint, Head, Log, LogRecord, PruneChain, WalkRecords, Walked},
    id::TenantId,
    policy::Inquiry,
    store::StoreFuture,
};

/// The audit log and the read log: records, chains and their heads.
/// Each method is one transaction.
pub trait AuditStore: Send + Sync {
    /// Writes down what is about to be shown, or was refused, in the access log; all of it, or
    /// nothing. On disk when this answers, and never behind a write to the vault.
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()>;

    /// Where every chain of a log ends.
    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>>;

    /// The same, and where each begins.
    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>>;

    /// Some of a tenant's records behind this number, in their order.
    fn list_records(
        &self,
        log: Log,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>>;

    /// Up to where a chain was pruned; nothing when it never was.
    fn find_checkpoint(&self, log: Log, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>>;

    /// Some of a tenant's records that meet a filter, the newest first. Never waits for a writer.
    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked>;

    /// Removes some of the first records of a chain, and writes the checkpoint that it then begins
    /// at; how many.
    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize>;
}
