//! Both logs, in lists.

use std::collections::BTreeMap;

use scrip_core::{
    audit::{
        Access, AuditRecord, Chain, Checkpoint, Entry, Head, Log, LogRecord, PruneChain, Tip,
        WalkRecords, Walked,
    },
    id::TenantId,
    policy::Inquiry,
    store::{AuditStore, StoreError, StoreFuture},
};

use crate::memory::{MemoryStore, State};

#[derive(Debug, Default, Clone)]
pub(super) struct Chains {
    records: Vec<LogRecord>,
    heads: BTreeMap<TenantId, Head>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
}

impl AuditStore for MemoryStore {
    fn record_access(&self, access: Access) -> StoreFuture<'_, ()> {
        self.with(move |state| {
            for it in &access.seen {
                let (entity, outcome) = (&*it.entity, it.outcome);
                let entry = Entry { log: Log::Access, tenant: access.tenant, entity, outcome };
                state.access.append(&access.audit, entry);
                if let Some(month) = access.active(it) {
                    state.counted.active(access.tenant, month, entity);
                }
            }
        })
    }

    fn list_heads(&self, log: Log) -> StoreFuture<'_, Vec<Head>> {
        self.with(move |it| it.log(log).list().iter().map(|it| it.head).collect())
    }

    fn list_chains(&self, log: Log) -> StoreFuture<'_, Vec<Chain>> {
        self.with(move |it| it.log(log).list())
    }

    fn list_records(
        &self,
        log: Log,
        tenant: TenantId,
        after: i64,
        records_max: usize,
    ) -> StoreFuture<'_, Vec<LogRecord>> {
        self.with(move |it| it.log(log).records(tenant, after).take(records_max).cloned().collect())
    }

    fn find_checkpoint(&self, log: Log, tenant: TenantId) -> StoreFuture<'_, Option<Checkpoint>> {
        self.with(move |it| it.log(log).checkpoint(tenant))
    }

    fn walk_records(&self, inquiry: Inquiry, walk: WalkRecords) -> StoreFuture<'_, Walked> {
        self.with(move |it| it.log(walk.log).walk(inquiry.tenant().id, &walk))
    }

    fn prune_chain(&self, prune: PruneChain) -> StoreFuture<'_, usize> {
        self.attempt(move |it| it.log(prune.log).prune(&prune))
    }
}

impl State {
    pub(super) fn log(&mut self, log: Log) -> &mut Chains {
        match log {
            Log::Audit => &mut self.audit,
            Log::Access => &mut self.access,
        }
    }

    pub(super) fn record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) {
        self.audit.append(audit, Entry { log: Log::Audit, tenant, entity, outcome });
    }
}

impl Chains {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn append(&mut self, audit: &AuditRecord, entry: Entry<'_>) {
        let before = self.heads.get(&entry.tenant);
        let mut tip = Tip::of(before);
        self.records.push(audit.link(&mut tip, entry).to_record());
        let head = audit.head_signer().head(entry.log, entry.tenant, before, tip);
        self.heads.insert(entry.tenant, head);
    }

    /// What was recorded of a tenant is kept for so long from now on.
    pub(super) fn end(&mut self, tenant: TenantId, audit: &AuditRecord, seconds: Option<i64>) {
        if let Some(head) = self.heads.get_mut(&tenant) {
            *head = audit.end(*head, Log::Audit, seconds);
        }
    }

    pub(super) fn records(&self, tenant: TenantId, after: i64) -> impl Iterator<Item = &LogRecord> {
        self.records.iter().filter(move |it| it.tenant == tenant && it.n > after)
    }

    pub(super) fn walk(&self, tenant: TenantId, walk: &WalkRecords) -> Walked {
        let below = |it: &&LogRecord| it.n < walk.before;
        let mut records: Vec<_> = self.records(tenant, 0).filter(below).collect();
        records.reverse();
        let looked = records.len().min(walk.rows_max);
        let all = looked < walk.rows_max;
        records.truncate(looked);
        let last = records.last().map(|it| (it.n, it.at)).filter(|_| !all);
        let found = records.into_iter().filter(|it| walk.filter.is_met(&it.row()));
        Walked { found: found.cloned().collect(), looked, rest: last }
    }

    pub(super) fn list(&self) -> Vec<Chain> {
        let oldest = |tenant| {
            let first = self.records(tenant, 0).next();
            let believed = self.records(tenant, 0).find(|it| !it.is_of_command());
            first.into_iter().chain(believed).map(|it| it.at).min()
        };
        self.heads.values().map(|it| Chain { head: *it, oldest: oldest(it.tenant) }).collect()
    }

    pub(super) fn checkpoint(&self, tenant: TenantId) -> Option<Checkpoint> {
        self.checkpoints.get(&tenant).copied()
    }

    pub(super) fn prune(&mut self, prune: &PruneChain) -> Result<usize, StoreError> {
        let tenant = prune.tenant;
        let records: Vec<_> = self.records(tenant, 0).cloned().collect();
        let made = prune.checkpoint(self.checkpoints.get(&tenant), &records);
        let broken = |_| StoreError::Corrupt("a chain was altered, and is not pruned");
        let Some(made) = made.map_err(broken)? else { return Ok(0) };
        self.checkpoints.insert(tenant, made);
        let had = self.records.len();
        self.records.retain(|it| it.tenant != tenant || it.n > made.n);
        Ok(had - self.records.len())
    }
}
