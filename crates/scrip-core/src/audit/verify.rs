//! Whether the trail is as it was written: goes through a log, record by record, and says what
//! somebody else did to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use scrip_seal::{AuditKey, Mac};

use crate::{
    audit::{ChainHead, Checkpoint, LogKind, LogRow, Operation, SavedHead, chain::NO_LINK},
    id::TenantId,
};

words! {
    /// What is wrong, and with what. The word is for programs.
    pub enum ChainFault {
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
        WrongFirstRecord = "begins_otherwise",
        /// The head that was kept apart is further: the log is an older one, brought back.
        RolledBack = "rolled_back",
        /// Something cannot be read as what it was written as.
        Unreadable = "unreadable",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainProblem {
    pub log: LogKind,
    /// Nothing when not even that can be read.
    pub tenant: Option<TenantId>,
    /// The number of the record, where it is about one.
    pub sequence: Option<i64>,
    pub fault: ChainFault,
}

impl fmt::Display for ChainFault {
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
            Self::WrongFirstRecord => {
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
pub struct ChainAnchors {
    pub heads: Vec<ChainHead>,
    pub checkpoints: Vec<Checkpoint>,
}

/// Goes through one log. The records come by tenant and number, both rising.
#[derive(Debug)]
pub struct Verifier {
    log: LogKind,
    key: Arc<AuditKey>,
    heads: BTreeMap<TenantId, ChainHead>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
    /// Kept apart.
    saved_heads: BTreeMap<TenantId, SavedHead>,
    visited: BTreeSet<TenantId>,
    current: Option<ChainProgress>,
    records: u64,
    problems: Vec<ChainProblem>,
}

/// How far a chain has been gone through.
#[derive(Debug)]
struct ChainProgress {
    tenant: TenantId,
    sequence: i64,
    link: Mac,
    /// What was kept apart has been compared, or is of a record that was pruned.
    is_saved_head_checked: bool,
}

/// What was found.
#[derive(Debug)]
pub struct VerificationReport {
    pub log: LogKind,
    pub chains: u64,
    pub records: u64,
    pub problems: Vec<ChainProblem>,
}

impl Verifier {
    #[must_use]
    pub fn new(
        log: LogKind,
        key: Arc<AuditKey>,
        anchors: ChainAnchors,
        saved_heads: &[SavedHead],
    ) -> Self {
        let mut verifier = Self {
            log,
            key,
            heads: anchors.heads.into_iter().map(|it| (it.tenant, it)).collect(),
            checkpoints: anchors.checkpoints.into_iter().map(|it| (it.tenant, it)).collect(),
            saved_heads: saved_heads
                .iter()
                .filter(|it| it.log == log)
                .map(|it| (it.tenant, *it))
                .collect(),
            visited: BTreeSet::new(),
            current: None,
            records: 0,
            problems: Vec::new(),
        };
        verifier.check_anchors();
        verifier
    }

    fn report(&mut self, tenant: TenantId, n: Option<i64>, fault: ChainFault) {
        self.problems.push(ChainProblem {
            log: self.log,
            tenant: Some(tenant),
            sequence: n,
            fault,
        });
    }

    /// A row, a head or a checkpoint that nothing we wrote looks like.
    pub fn report_unreadable(&mut self, tenant: Option<TenantId>) {
        let (log, fault) = (self.log, ChainFault::Unreadable);
        self.problems.push(ChainProblem { log, tenant, sequence: None, fault });
    }

    fn check_anchors(&mut self) {
        let (key, log) = (Arc::clone(&self.key), self.log);
        let heads = self.heads.values().filter(|it| !it.has_valid_mac(&key, log));
        let altered: Vec<_> = heads.map(|it| (it.tenant, ChainFault::HeadAltered)).collect();
        let checkpoints = self.checkpoints.values();
        let false_ones = checkpoints
            .filter(|it| !it.has_valid_mac(&key, log))
            .map(|it| (it.tenant, ChainFault::CheckpointAltered));
        let altered: Vec<_> = altered.into_iter().chain(false_ones).collect();
        for (tenant, fault) in altered {
            self.report(tenant, None, fault);
        }
    }

    /// Finds that the vault's own chain is missing, which begins when the vault is made.
    pub fn expect_vault_chain(&mut self) {
        if self.log == LogKind::Read && !self.heads.contains_key(&TenantId::VAULT) {
            self.report(TenantId::VAULT, None, ChainFault::ChainMissing);
        }
    }

    /// The next record.
    pub fn verify_record(&mut self, row: &LogRow<'_>) {
        self.records = self.records.saturating_add(1);
        if self.current.as_ref().is_none_or(|it| it.tenant != row.tenant) {
            self.finish_chain();
            self.begin_chain(row.tenant);
        }
        let Some(walk) = self.current.take() else { return };
        let expected = walk.sequence.saturating_add(1);
        if row.sequence < expected {
            self.report(row.tenant, Some(row.sequence), ChainFault::Unexpected);
            self.current = Some(walk);
            return;
        }
        if row.sequence > expected {
            self.report(row.tenant, Some(row.sequence.saturating_sub(1)), ChainFault::Missing);
        } else if !row.link.constant_time_eq(&row.compute_link(&self.key, self.log, walk.link)) {
            // Of one behind a gap it cannot be told: what it follows is not there.
            self.report(row.tenant, Some(row.sequence), ChainFault::Altered);
        }
        let first = match self.log {
            LogKind::Audit => Some(Operation::CreateTenant),
            LogKind::Read if row.tenant == TenantId::VAULT => Some(Operation::CreateVault),
            LogKind::Read => None,
        };
        if row.sequence == 1 && first.is_some_and(|it| row.operation != it.as_str()) {
            self.report(row.tenant, Some(row.sequence), ChainFault::WrongFirstRecord);
        }
        let mut walk = ChainProgress { sequence: row.sequence, link: row.link, ..walk };
        self.compare_saved_head(&mut walk);
        self.current = Some(walk);
    }

    fn begin_chain(&mut self, tenant: TenantId) {
        self.visited.insert(tenant);
        let checkpoint = self.checkpoints.get(&tenant);
        let (n, link) = checkpoint.map_or((0, NO_LINK), |it| (it.sequence, it.link));
        let is_compared = self.saved_heads.get(&tenant).is_none_or(|it| it.sequence < n);
        let mut walk =
            ChainProgress { tenant, sequence: n, link, is_saved_head_checked: is_compared };
        self.compare_saved_head(&mut walk);
        self.current = Some(walk);
    }

    /// With what was kept apart, when this is the record that it knows.
    fn compare_saved_head(&mut self, walk: &mut ChainProgress) {
        let Some(saved) =
            self.saved_heads.get(&walk.tenant).filter(|it| it.sequence == walk.sequence)
        else {
            return;
        };
        walk.is_saved_head_checked = true;
        if !saved.link.constant_time_eq(&walk.link) {
            self.report(walk.tenant, Some(walk.sequence), ChainFault::RolledBack);
        }
    }

    fn finish_chain(&mut self) {
        let Some(walk) = self.current.take() else { return };
        let ChainProgress { tenant, sequence: n, link, is_saved_head_checked: is_compared } = walk;
        match self.heads.get(&tenant).copied() {
            None => self.report(tenant, None, ChainFault::HeadMissing),
            Some(head) if head.sequence > n => {
                self.report(tenant, Some(n.saturating_add(1)), ChainFault::Truncated);
            }
            Some(head)
                if head.sequence < n
                    && self.checkpoints.get(&tenant).is_some_and(|it| it.sequence == n) =>
            {
                self.report(tenant, Some(n), ChainFault::CheckpointAhead);
            }
            Some(head) if head.sequence < n => {
                self.report(tenant, Some(head.sequence.saturating_add(1)), ChainFault::Unexpected);
            }
            Some(head) if !head.link.constant_time_eq(&link) => {
                self.report(tenant, None, ChainFault::HeadAltered)
            }
            Some(_) => (),
        }
        let saved_sequence =
            self.saved_heads.get(&tenant).filter(|_| !is_compared).map(|it| it.sequence);
        if let Some(saved_sequence) = saved_sequence {
            // Beyond the end; or in a gap, which was found already.
            let from = saved_sequence.min(n.saturating_add(1));
            self.report(tenant, Some(from), ChainFault::RolledBack);
        }
    }

    /// When there are no more records. Of `living` tenants the creation at least is recorded.
    #[must_use]
    pub fn finish(mut self, live_tenants: &[TenantId]) -> VerificationReport {
        self.finish_chain();
        let known = self.heads.keys().chain(self.checkpoints.keys()).chain(self.saved_heads.keys());
        let rest: BTreeSet<_> = known.filter(|it| !self.visited.contains(it)).copied().collect();
        for tenant in rest {
            let none = !self.heads.contains_key(&tenant) && !self.checkpoints.contains_key(&tenant);
            if none {
                self.visited.insert(tenant);
                self.report(
                    tenant,
                    self.saved_heads.get(&tenant).map(|it| it.sequence),
                    ChainFault::RolledBack,
                );
                continue;
            }
            self.begin_chain(tenant);
            self.finish_chain();
        }
        if self.log == LogKind::Audit {
            let lost = live_tenants.iter().filter(|it| !self.heads.contains_key(it));
            for tenant in lost.copied().collect::<Vec<_>>() {
                self.report(tenant, None, ChainFault::ChainMissing);
            }
        }
        let chains = u64::try_from(self.visited.len()).unwrap_or(u64::MAX);
        let Self { log, records, mut problems, .. } = self;
        problems.sort();
        problems.dedup();
        VerificationReport { log, chains, records, problems }
    }
}
