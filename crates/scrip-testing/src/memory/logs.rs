//! The audit log and the read log, in lists.

use std::collections::BTreeMap;

use scrip_core::{
    audit::{
        AuditRecord, Chain, ChainHead, ChainTip, Checkpoint, LogKind, LogRecord, PruneChain,
        ReadLogBatch, RecordSubject, ResignChain, ScanRecords, ScannedRecords,
    },
    id::TenantId,
    policy::LookupPermit,
    store::{AuditStore, StoreError, StoreFuture},
};

use crate::memory::{MemoryStore, MemoryStoreState};

#[derive(Debug, Default, Clone)]
pub(super) struct LogChains {
    records: Vec<LogRecord>,
    heads: BTreeMap<TenantId, ChainHead>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
}

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

impl LogChains {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn append(&mut self, audit: &AuditRecord, entry: RecordSubject<'_>) {
        let previous_head = self.heads.get(&entry.tenant);
        let mut tip = ChainTip::from_head(previous_head);
        self.records.push(audit.link_to_chain(&mut tip, entry).to_record());
        let head = audit.head_signer().head(entry.log, entry.tenant, previous_head, tip);
        self.heads.insert(entry.tenant, head);
    }

    /// Closes the chain of a tenant and sets the retention of its records.
    pub(super) fn close_tenant_chain(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        retention_seconds: Option<i64>,
    ) {
        if let Some(head) = self.heads.get_mut(&tenant) {
            *head = audit.close_chain(*head, LogKind::Audit, retention_seconds);
        }
    }

    pub(super) fn records(&self, tenant: TenantId, after: i64) -> impl Iterator<Item = &LogRecord> {
        self.records.iter().filter(move |it| it.tenant == tenant && it.sequence > after)
    }

    pub(super) fn scan(&self, tenant: TenantId, query: &ScanRecords) -> ScannedRecords {
        let is_older = |it: &&LogRecord| it.sequence < query.before;
        let mut records: Vec<_> = self.records(tenant, 0).filter(is_older).collect();
        records.reverse();
        let scanned_count = records.len().min(query.rows_max);
        let is_complete = scanned_count < query.rows_max;
        records.truncate(scanned_count);
        let last_scanned = records.last().map(|it| (it.sequence, it.at)).filter(|_| !is_complete);
        let matching = records.into_iter().filter(|it| query.filter.matches(&it.to_row()));
        ScannedRecords {
            records: matching.cloned().collect(),
            scanned: scanned_count,
            last_scanned,
        }
    }

    pub(super) fn list_chains(&self) -> Vec<Chain> {
        let oldest_time = |tenant| {
            let first = self.records(tenant, 0).next();
            let first_from_server = self.records(tenant, 0).find(|it| !it.is_from_command());
            first.into_iter().chain(first_from_server).map(|it| it.at).min()
        };
        self.heads
            .values()
            .map(|it| Chain { head: *it, oldest_at: oldest_time(it.tenant) })
            .collect()
    }

    pub(super) fn checkpoint(&self, tenant: TenantId) -> Option<Checkpoint> {
        self.checkpoints.get(&tenant).copied()
    }

    fn resign(&mut self, resign: &ResignChain) {
        if let Some(head) = self.heads.get_mut(&resign.tenant)
            && let Some(mac) = resign.head_mac(head)
        {
            head.mac = mac;
        }
        if let Some(checkpoint) = self.checkpoints.get_mut(&resign.tenant)
            && let Some(resigned) = resign.checkpoint(*checkpoint)
        {
            *checkpoint = resigned;
        }
    }

    pub(super) fn prune(&mut self, prune: &PruneChain) -> Result<usize, StoreError> {
        let tenant = prune.tenant;
        let records: Vec<_> = self.records(tenant, 0).cloned().collect();
        let checkpoint = prune.checkpoint(self.checkpoints.get(&tenant), &records);
        let to_error = |_| StoreError::Corrupt("an altered chain is not pruned");
        let Some(checkpoint) = checkpoint.map_err(to_error)? else { return Ok(0) };
        self.checkpoints.insert(tenant, checkpoint);
        let count_before = self.records.len();
        self.records.retain(|it| it.tenant != tenant || it.sequence > checkpoint.sequence);
        Ok(count_before - self.records.len())
    }
}
