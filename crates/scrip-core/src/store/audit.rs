//! The audit log and the read log: records, chains and their heads.

use crate::{
    audit::{
        Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, ResignChain, ScanRecords,
        ScannedRecords,
    },
    policy::LookupPermit,
    read_log::ReadLogBatch,
    types::{StoreFuture, id::TenantId},
};

/// The audit log and the read log: records, chains and their heads. Each method is one transaction.
pub trait AuditStore: Send + Sync {
    /// Appends reads or rejections to the read log; all entries or none. They are on disk when the
    /// future completes. Never waits for a write to the vault.
    fn append_read_log(&self, batch: ReadLogBatch) -> StoreFuture<'_, ()>;

    /// The heads of all chains of a log.
    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>>;

    /// All chains of a log: head and oldest record.
    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>>;

    /// Some of a tenant's records after this sequence number, in order.
    fn list_records(
        &self,
        log: LogKind,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>>;

    /// The checkpoint of a pruned chain; `None` when it was never pruned.
    fn find_checkpoint(
        &self,
        log: LogKind,
        tenant: TenantId,
    ) -> StoreFuture<'_, Option<Checkpoint>>;

    /// Some of a tenant's records that match a filter, newest first. Never waits for a writer.
    fn scan_records(
        &self,
        lookup: LookupPermit,
        scan: ScanRecords,
    ) -> StoreFuture<'_, ScannedRecords>;

    /// Removes some of the first records of a chain, and writes the checkpoint at which the chain
    /// then begins; returns how many records.
    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize>;

    /// Signs the head and the checkpoint of a chain with the newest audit key.
    fn resign_chain(&self, resign: ResignChain) -> StoreFuture<'_, ()>;
}
