//! The audit log and the read log, and their chains.

use scrip_core::{
    audit::{
        Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, ResignChain, ScanRecords,
        ScannedRecords,
    },
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::AuditStore,
    types::{StoreFuture, id::TenantId},
};

use crate::{
    shared::audit::{
        log::{decode_checkpoint, decode_head, list_records, prune_chain, resign_chain},
        record_scan::scan_records,
    },
    sql::{ColumnReader, Statements, parameters, read_optional},
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl AuditStore {
    fn append_read_log(&self, batch: ReadLogBatch) -> StoreFuture<'_, ()> {
        Box::pin(self.read_log.append(batch))
    }

    /// Skips heads that cannot be decoded, because they must not hide the other heads.
    /// Verification reports them.
    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>> {
        Box::pin(async move {
            let sql = &Self::chain_statements(log).list_heads;
            let heads = self.chains(log).query(sql, &[], |row| Ok(decode_head(row).ok())).await?;
            Ok(heads.into_iter().flatten().collect())
        })
    }

    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move {
            let decode_chain = |row: &dyn ColumnReader| {
                let Ok(head) = decode_head(row) else { return Ok(None) };
                Ok(Some(Chain { head, oldest_at: read_optional(row, 6)? }))
            };
            let sql = &Self::chain_statements(log).list_chains;
            let chains = self.chains(log).query(sql, &[], decode_chain).await?;
            Ok(chains.into_iter().flatten().collect())
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
            let client = self.chain_reader(log, tenant);
            list_records(&client, Self::chain_statements(log), tenant, after, records_max).await
        })
    }

    fn find_checkpoint(&self, log: LogKind, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move {
            let sql = &Self::chain_statements(log).find_checkpoint;
            self.chain_reader(log, tenant).find(sql, &parameters![tenant], decode_checkpoint).await
        })
    }

    fn scan_records(&self, lookup: LookupPermit, scan: ScanRecords) -> StoreFuture<'_, ScannedRecords> {
        let (log, tenant) = (scan.log, lookup.tenant().id);
        Box::pin(self.read_snapshot(log, tenant, async move |it| {
            scan_records(it, Self::chain_statements(log), tenant, &scan).await
        }))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        let PruneChain { log, tenant, .. } = prune;
        Box::pin(self.write_log(log, tenant, async move |it| {
            prune_chain(it, Self::chain_statements(log), &prune).await
        }))
    }

    fn resign_chain(&self, resign: ResignChain) -> StoreFuture<'_, ()> {
        let ResignChain { log, tenant, .. } = resign;
        Box::pin(self.write_log(log, tenant, async move |it| {
            resign_chain(it, Self::chain_statements(log), &resign).await
        }))
    }
}
}
