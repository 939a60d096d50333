//! Whether the trail is as it was written: goes through a log, record by record, and says what
//! somebody else did to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use scrip_seal::{AuditKey, Mac};

use crate::{
    audit::{Checkpoint, Head, KeptHead, Log, LogRow, Operation, chain::NO_LINK},
    id::TenantId,
};

words! {
    /// What is wrong, and with what. The word is for programs.
    pub enum Fault {
        /// A record is not what was written there.
        Altered = "altered",
        /// Records are gone from the front or the middle, up to this one.
        Missing = "missing",
        /// Records are gone from the end, from this one on.
        Truncated = "truncated",
        /// A record that is older than the checkpoint, or that the head does not know.
        Unexpected = "unexpected",
        HeadAltered = "head_altered",
        HeadMissing = "head_missing",
        CheckpointAltered = "checkpoint_altered",
        /// The checkpoint is further than the head.
        CheckpointAhead = "checkpoint_ahead",
        /// All of it: a living tenant has at least the record of its creation.
        ChainMissing = "chain_missing",
        /// The first record of all is not that of the tenant's or the vault's creation.
        BeginsOtherwise = "begins_otherwise",
        /// The head that was kept apart is further: the log is an older one, brought back.
        RolledBack = "rolled_back",
        /// Something cannot be read as what it was written as.
        Unreadable = "unreadable",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub log: Log,
    /// Nothing when not even that can be read.
    pub tenant: Option<TenantId>,
    /// The number of the record, where it is about one.
    pub n: Option<i64>,
    pub fault: Fault,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Altered => "altered",
            Self::Missing => "missing, perhaps with others before it",
            Self::Truncated => "truncated: missing, with all that followed",
            Self::Unexpected => "unexpected: pruned before, or never written by us",
            Self::HeadAltered => "the head of the chain was altered",
            Self::HeadMissing => "the head of the chain is missing",
            Self::CheckpointAltered => "the checkpoint was altered",
            Self::CheckpointAhead => "the checkpoint is further than the chain",
            Self::ChainMissing => "the whole chain is missing",
            Self::BeginsOtherwise => {
                "altered: the chain does not begin with the creation of its tenant or vault"
            }
            Self::RolledBack => {
                "rolled back or truncated: the head that was kept apart knows a later record"
            }
            Self::Unreadable => "unreadable",
        })
    }
}

/// What a log has besides its records, all of the same instant as those.
#[derive(Debug, Default)]
pub struct Ends {
    pub heads: Vec<Head>,
    pub checkpoints: Vec<Checkpoint>,
}

/// Goes through one log. The records come by tenant and number, both rising.
#[derive(Debug)]
pub struct Verifier {
    log: Log,
    key: Arc<AuditKey>,
    heads: BTreeMap<TenantId, Head>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
    /// Kept apart.
    kept: BTreeMap<TenantId, KeptHead>,
    seen: BTreeSet<TenantId>,
    current: Option<Walk>,
    records: u64,
    problems: Vec<Problem>,
}

/// How far a chain has been gone through.
#[derive(Debug)]
struct Walk {
    tenant: TenantId,
    n: i64,
    link: Mac,
    /// What was kept apart has been compared, or is of a record that was pruned.
    is_compared: bool,
}

/// What was found.
#[derive(Debug)]
pub struct Verified {
    pub log: Log,
    pub chains: u64,
    pub records: u64,
    pub problems: Vec<Problem>,
}

impl Verifier {
    #[must_use]
    pub fn new(log: Log, key: Arc<AuditKey>, ends: Ends, kept: &[KeptHead]) -> Self {
        let mut verifier = Self {
            log,
            key,
            heads: ends.heads.into_iter().map(|it| (it.tenant, it)).collect(),
            checkpoints: ends.checkpoints.into_iter().map(|it| (it.tenant, it)).collect(),
            kept: kept.iter().filter(|it| it.log == log).map(|it| (it.tenant, *it)).collect(),
            seen: BTreeSet::new(),
            current: None,
            records: 0,
            problems: Vec::new(),
        };
        verifier.check_ends();
        verifier
    }

    fn note(&mut self, tenant: TenantId, n: Option<i64>, fault: Fault) {
        self.problems.push(Problem { log: self.log, tenant: Some(tenant), n, fault });
    }

    /// A row, a head or a checkpoint that nothing we wrote looks like.
    pub fn unreadable(&mut self, tenant: Option<TenantId>) {
        let (log, fault) = (self.log, Fault::Unreadable);
        self.problems.push(Problem { log, tenant, n: None, fault });
    }

    fn check_ends(&mut self) {
        let (key, log) = (Arc::clone(&self.key), self.log);
        let heads = self.heads.values().filter(|it| !it.is_ours(&key, log));
        let altered: Vec<_> = heads.map(|it| (it.tenant, Fault::HeadAltered)).collect();
        let checkpoints = self.checkpoints.values();
        let false_ones = checkpoints
            .filter(|it| !it.is_ours(&key, log))
            .map(|it| (it.tenant, Fault::CheckpointAltered));
        let altered: Vec<_> = altered.into_iter().chain(false_ones).collect();
        for (tenant, fault) in altered {
            self.note(tenant, None, fault);
        }
    }

    /// Finds that the vault's own chain is missing, which begins when the vault is made.
    pub fn expect_vault_chain(&mut self) {
        if self.log == Log::Access && !self.heads.contains_key(&TenantId::VAULT) {
            self.note(TenantId::VAULT, None, Fault::ChainMissing);
        }
    }

    /// The next record.
    pub fn take(&mut self, row: &LogRow<'_>) {
        self.records = self.records.saturating_add(1);
        if self.current.as_ref().is_none_or(|it| it.tenant != row.tenant) {
            self.finish_chain();
            self.begin_chain(row.tenant);
        }
        let Some(walk) = self.current.take() else { return };
        let expected = walk.n.saturating_add(1);
        if row.n < expected {
            self.note(row.tenant, Some(row.n), Fault::Unexpected);
            self.current = Some(walk);
            return;
        }
        if row.n > expected {
            self.note(row.tenant, Some(row.n.saturating_sub(1)), Fault::Missing);
        } else if !row.link.is(&row.link_after(&self.key, self.log, walk.link)) {
            // Of one behind a gap it cannot be told: what it follows is not there.
            self.note(row.tenant, Some(row.n), Fault::Altered);
        }
        let first = match self.log {
            Log::Audit => Some(Operation::CreateTenant),
            Log::Access if row.tenant == TenantId::VAULT => Some(Operation::CreateVault),
            Log::Access => None,
        };
        if row.n == 1 && first.is_some_and(|it| row.operation != it.as_str()) {
            self.note(row.tenant, Some(row.n), Fault::BeginsOtherwise);
        }
        let mut walk = Walk { n: row.n, link: row.link, ..walk };
        self.compare(&mut walk);
        self.current = Some(walk);
    }

    fn begin_chain(&mut self, tenant: TenantId) {
        self.seen.insert(tenant);
        let checkpoint = self.checkpoints.get(&tenant);
        let (n, link) = checkpoint.map_or((0, NO_LINK), |it| (it.n, it.link));
        let is_compared = self.kept.get(&tenant).is_none_or(|it| it.n < n);
        let mut walk = Walk { tenant, n, link, is_compared };
        self.compare(&mut walk);
        self.current = Some(walk);
    }

    /// With what was kept apart, when this is the record that it knows.
    fn compare(&mut self, walk: &mut Walk) {
        let Some(kept) = self.kept.get(&walk.tenant).filter(|it| it.n == walk.n) else { return };
        walk.is_compared = true;
        if !kept.link.is(&walk.link) {
            self.note(walk.tenant, Some(walk.n), Fault::RolledBack);
        }
    }

    fn finish_chain(&mut self) {
        let Some(walk) = self.current.take() else { return };
        let Walk { tenant, n, link, is_compared } = walk;
        match self.heads.get(&tenant).copied() {
            None => self.note(tenant, None, Fault::HeadMissing),
            Some(head) if head.n > n => {
                self.note(tenant, Some(n.saturating_add(1)), Fault::Truncated);
            }
            Some(head)
                if head.n < n && self.checkpoints.get(&tenant).is_some_and(|it| it.n == n) =>
            {
                self.note(tenant, Some(n), Fault::CheckpointAhead);
            }
            Some(head) if head.n < n => {
                self.note(tenant, Some(head.n.saturating_add(1)), Fault::Unexpected);
            }
            Some(head) if !head.link.is(&link) => self.note(tenant, None, Fault::HeadAltered),
            Some(_) => (),
        }
        let kept = self.kept.get(&tenant).filter(|_| !is_compared).map(|it| it.n);
        if let Some(kept) = kept {
            // Beyond the end; or in a gap, which was found already.
            let from = kept.min(n.saturating_add(1));
            self.note(tenant, Some(from), Fault::RolledBack);
        }
    }

    /// When there are no more records. Of `living` tenants the creation at least is recorded.
    #[must_use]
    pub fn finish(mut self, living: &[TenantId]) -> Verified {
        self.finish_chain();
        let known = self.heads.keys().chain(self.checkpoints.keys()).chain(self.kept.keys());
        let rest: BTreeSet<_> = known.filter(|it| !self.seen.contains(it)).copied().collect();
        for tenant in rest {
            let none = !self.heads.contains_key(&tenant) && !self.checkpoints.contains_key(&tenant);
            if none {
                self.seen.insert(tenant);
                self.note(tenant, self.kept.get(&tenant).map(|it| it.n), Fault::RolledBack);
                continue;
            }
            self.begin_chain(tenant);
            self.finish_chain();
        }
        if self.log == Log::Audit {
            let lost = living.iter().filter(|it| !self.heads.contains_key(it));
            for tenant in lost.copied().collect::<Vec<_>>() {
                self.note(tenant, None, Fault::ChainMissing);
            }
        }
        let chains = u64::try_from(self.seen.len()).unwrap_or(u64::MAX);
        let Self { log, records, mut problems, .. } = self;
        problems.sort();
        problems.dedup();
        Verified { log, chains, records, problems }
    }
}
