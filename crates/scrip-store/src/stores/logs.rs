//! The audit log and the access log, and their chains.

use scrip_core::{
    audit::{Access, Chain, Checkpoint, Head, Log, LogRecord, PruneChain, WalkRecords, Walked},
    id::TenantId,
    policy::Inquiry,
    store::{AuditStore, StoreFuture},
};

use crate::{
    rules::audit::{
        log::{checkpoint, head, list_records, prune_chain},
        walk::walk_records,
    },
    sql::{ColumnReader, Statements, for_both_engines, optional, parameters},
};

for_both_engines! {
impl AuditStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        Box::pin(self.access.record(access))
    }

    /// Without records that cannot be read, which must not hide the others: verification reports them.
    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        Box::pin(async move {
            let sql = Self::chain_statements(log).list_heads;
            let heads = self.chains(log).query(sql, &[], |row| Ok(head(row).ok())).await?;
            Ok(heads.into_iter().flatten().collect())
        })
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        Box::pin(async move {
            let chain = |row: &dyn ColumnReader| {
                let Ok(head) = head(row) else { return Ok(None) };
                Ok(Some(Chain { head, oldest: optional(row, 6)? }))
            };
            let sql = Self::chain_statements(log).list_chains;
            Ok(self.chains(log).query(sql, &[], chain).await?.into_iter().flatten().collect())
        })
    }

    fn list_records(
        &self,
        log: Log,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        Box::pin(async move {
            let (chain, statements) = (self.chain(log, tenant), Self::chain_statements(log));
            list_records(&chain, statements, tenant, after, records_max).await
        })
    }

    fn find_checkpoint(&self, log: Log, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        Box::pin(async move {
            let sql = Self::chain_statements(log).find_checkpoint;
            self.chain(log, tenant).find(sql, &parameters![tenant], checkpoint).await
        })
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        let (log, tenant) = (walk.log, inquiry.tenant().id);
        Box::pin(self.at_one_instant(log, tenant, async move |it| {
            walk_records(it, Self::chain_statements(log), tenant, &walk).await
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
