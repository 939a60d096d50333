//! The audit log and the access log, and their chains.

use scrip_core::{
    audit::{
        Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, ReadLogBatch, ScanRecords,
        ScannedRecords,
    },
    id::TenantId,
    policy::LookupPermit,
    store::{AuditStore, StoreFuture},
};

use crate::{
    shared::audit::{
        log::{decode_checkpoint, decode_head, list_records, prune_chain},
        record_scan::scan_records,
    },
    sql::{ColumnReader, Statements, for_both_engines, optional, parameters},
};

for_both_engines! {
impl AuditStore {
    fn append_read_log(&self, access: ReadLogBatch) -> StoreFuture<'_, ()> {
        Box::pin(self.read_log.append(access))
    }

    /// Without records that cannot be read, which must not hide the others: verification reports them.
    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>> {
        Box::pin(async move {
            let sql = Self::chain_statements(log).list_heads;
            let heads = self.chains(log).query(sql, &[], |row| Ok(decode_head(row).ok())).await?;
            Ok(heads.into_iter().flatten().collect())
        })
    }

    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move {
            let chain = |row: &dyn ColumnReader| {
                let Ok(head) = decode_head(row) else { return Ok(None) };
                Ok(Some(Chain { head, oldest_at: optional(row, 6)? }))
            };
            let sql = Self::chain_statements(log).list_chains;
            Ok(self.chains(log).query(sql, &[], chain).await?.into_iter().flatten().collect())
        })
    }

    fn list_records(
        &self,
        log: LogKind,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        Box::pin(async move {
            let (chain, statements) = (self.chain_reader(log, tenant), Self::chain_statements(log));
            list_records(&chain, statements, tenant, after, records_max).await
        })
    }

    fn find_checkpoint(&self, log: LogKind, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move {
            let sql = Self::chain_statements(log).find_checkpoint;
            self.chain_reader(log, tenant).find(sql, &parameters![tenant], decode_checkpoint).await
        })
    }

    fn scan_records(&self, inquiry: LookupPermit, walk: ScanRecords) -> StoreFuture<'_, ScannedRecords> {
        let (log, tenant) = (walk.log, inquiry.tenant().id);
        Box::pin(self.read_snapshot(log, tenant, async move |it| {
            scan_records(it, Self::chain_statements(log), tenant, &walk).await
        }))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        let PruneChain { log, tenant, .. } = prune;
        Box::pin(self.write_log(log, tenant, async move |it| {
            prune_chain(it, Self::chain_statements(log), &prune).await
        }))
    }
}
}
