//! The audit log and the read log: records, chains and their heads.

use crate::{
    audit::{
        Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, ReadLogBatch, ScanRecords,
        ScannedRecords,
    },
    id::TenantId,
    policy::LookupPermit,
    store::StoreFuture,
};

/// The audit log and the read log: records, chains and their heads.
/// Each method is one transaction.
pub trait AuditStore: Send + Sync {
    /// Writes down what is about to be shown, or was refused, in the access log; all of it, or
    /// nothing. On disk when this answers, and never behind a write to the vault.
    fn append_read_log(&self, batch: ReadLogBatch) -> StoreFuture<'_, ()>;

    /// Where every chain of a log ends.
    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>>;

    /// The same, and where each begins.
    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>>;

    /// Some of a tenant's records behind this number, in their order.
    fn list_records(
        &self,
        log: LogKind,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>>;

    /// Up to where a chain was pruned; nothing when it never was.
    fn find_checkpoint(
        &self,
        log: LogKind,
        tenant: TenantId,
    ) -> StoreFuture<'_, Option<Checkpoint>>;

    /// Some of a tenant's records that meet a filter, the newest first. Never waits for a writer.
    fn scan_records(
        &self,
        lookup: LookupPermit,
        scan: ScanRecords,
    ) -> StoreFuture<'_, ScannedRecords>;

    /// Removes some of the first records of a chain, and writes the checkpoint that it then begins
    /// at; how many.
    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize>;
}
