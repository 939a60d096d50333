//! The records of a log, and the heads and checkpoints of its chains.

use std::collections::BTreeMap;

use scrip_core::{
    audit::{
        AuditRecord, Chain, ChainHead, ChainTip, Checkpoint, LogKind, LogRecord, PruneChain,
        RecordSubject, ResignChain, ScanRecords, ScannedRecords,
    },
    types::{StoreError, id::TenantId},
};

#[derive(Debug, Default, Clone)]
pub(in crate::memory) struct LogChains {
    records: Vec<LogRecord>,
    heads: BTreeMap<TenantId, ChainHead>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
}

impl LogChains {
    pub(in crate::memory) fn len(&self) -> usize {
        self.records.len()
    }

    pub(in crate::memory) fn append(&mut self, audit: &AuditRecord, entry: RecordSubject<'_>) {
        let previous_head = self.heads.get(&entry.tenant);
        let mut tip = ChainTip::from_head(previous_head);
        self.records.push(audit.link_to_chain(&mut tip, entry).to_record());
        let head = audit.head_signer().head(entry.log, entry.tenant, previous_head, tip);
        self.heads.insert(entry.tenant, head);
    }

    /// Closes the chain of a tenant and sets the retention of its records.
    pub(in crate::memory) fn close_tenant_chain(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        retention_seconds: Option<i64>,
    ) {
        if let Some(head) = self.heads.get_mut(&tenant) {
            *head = audit.close_chain(*head, LogKind::Audit, retention_seconds);
        }
    }

    pub(in crate::memory) fn records(
        &self,
        tenant: TenantId,
        after: i64,
    ) -> impl Iterator<Item = &LogRecord> {
        self.records.iter().filter(move |it| it.tenant == tenant && it.sequence > after)
    }

    pub(in crate::memory) fn scan(&self, tenant: TenantId, query: &ScanRecords) -> ScannedRecords {
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

    pub(in crate::memory) fn list_chains(&self) -> Vec<Chain> {
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

    pub(in crate::memory) fn checkpoint(&self, tenant: TenantId) -> Option<Checkpoint> {
        self.checkpoints.get(&tenant).copied()
    }

    pub(in crate::memory) fn resign(&mut self, resign: &ResignChain) {
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

    pub(in crate::memory) fn prune(&mut self, prune: &PruneChain) -> Result<usize, StoreError> {
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
