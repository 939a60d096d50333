//! The audit log and the read log, in lists.

use scrip_core::{
    audit::{
        AuditRecord, Chain, ChainHead, Checkpoint, LogKind, LogRecord, PruneChain, RecordSubject,
        ResignChain, ScanRecords, ScannedRecords,
    },
    policy::LookupPermit,
    read_log::ReadLogBatch,
    store::AuditStore,
    types::{StoreFuture, id::TenantId},
};

use crate::memory::{
    MemoryStore,
    state::{LogChains, MemoryStoreState},
};

impl AuditStore for MemoryStore {
    fn append_read_log(&self, batch: ReadLogBatch) -> StoreFuture<'_, ()> {
        self.with(move |state| {
            for it in &batch.entries {
                let (entity, outcome) = (&*it.entity, it.outcome);
                let entry =
                    RecordSubject { log: LogKind::Read, tenant: batch.tenant, entity, outcome };
                state.read_log.append(&batch.entry_audit(it), entry);
                if let Some(month) = batch.active_month(it) {
                    state.usage.count_active(batch.tenant, month, entity);
                }
            }
            state.insert_deliveries(batch.deliveries);
        })
    }

    fn list_heads(&self, log: LogKind) -> StoreFuture<'_, Vec<ChainHead>> {
        self.with(move |it| it.chains(log).list_chains().iter().map(|it| it.head).collect())
    }

    fn list_chains(&self, log: LogKind) -> StoreFuture<'_, Vec<Chain>> {
        self.with(move |it| it.chains(log).list_chains())
    }

    fn list_records(
        &self,
        log: LogKind,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        self.with(move |it| {
            it.chains(log).records(tenant, after).take(records_max).cloned().collect()
        })
    }

    fn find_checkpoint(
        &self,
        log: LogKind,
        tenant: TenantId,
    ) -> StoreFuture<'_, Option<Checkpoint>> {
        self.with(move |it| it.chains(log).checkpoint(tenant))
    }

    fn scan_records(
        &self,
        lookup: LookupPermit,
        scan: ScanRecords,
    ) -> StoreFuture<'_, ScannedRecords> {
        self.with(move |it| it.chains(scan.log).scan(lookup.tenant().id, &scan))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        self.attempt(move |it| it.chains(prune.log).prune(&prune))
    }

    fn resign_chain(&self, resign: ResignChain) -> StoreFuture<'_, ()> {
        self.with(move |it| it.chains(resign.log).resign(&resign))
    }
}

impl MemoryStoreState {
    pub(super) fn chains(&mut self, log: LogKind) -> &mut LogChains {
        match log {
            LogKind::Audit => &mut self.audit,
            LogKind::Read => &mut self.read_log,
        }
    }

    pub(super) fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) {
        self.audit.append(audit, RecordSubject { log: LogKind::Audit, tenant, entity, outcome });
    }
}
