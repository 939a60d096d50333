//! Verifies a log: scans it record by record and reports all alterations.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use scrip_seal::{AuditKey, Mac};

use crate::{
    audit::{ChainHead, Checkpoint, LogKind, LogRow, chain::NO_LINK},
    types::{Operation, id::TenantId},
};

words! {
    /// A fault of a chain. Programs read the name, operators the text of [`fmt::Display`].
    pub enum ChainFault {
        /// A record does not have the content that was written.
        Altered = "altered",
        /// Records before this one are missing, at the front or in the middle.
        Missing = "missing",
        /// Records at the end are missing, from this one on.
        Truncated = "truncated",
        /// A record older than the checkpoint, or newer than the head.
        Unexpected = "unexpected",
        HeadAltered = "head_altered",
        HeadMissing = "head_missing",
        CheckpointAltered = "checkpoint_altered",
        /// The checkpoint is after the head.
        CheckpointAhead = "checkpoint_ahead",
        /// The whole chain is missing: a live tenant has at least the record of its creation.
        ChainMissing = "chain_missing",
        /// The first record is not the creation of the tenant or the vault.
        WrongFirstRecord = "wrong_first_record",
        /// The saved head is newer than the log: an older log was restored.
        RolledBack = "rolled_back",
        /// A row cannot be parsed.
        Unreadable = "unreadable",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainProblem {
    pub log: LogKind,
    /// `None` when even the tenant cannot be parsed.
    pub tenant: Option<TenantId>,
    /// The sequence number of the record, if the fault concerns one.
    pub sequence: Option<i64>,
    pub fault: ChainFault,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Altered => "altered",
            Self::Missing => "missing, possibly with records before it",
            Self::Truncated => "truncated: this record and all later records are missing",
            Self::Unexpected => "unexpected: already pruned, or not written by this vault",
            Self::HeadAltered => "the head of the chain was altered",
            Self::HeadMissing => "the head of the chain is missing",
            Self::CheckpointAltered => "the checkpoint was altered",
            Self::CheckpointAhead => "the checkpoint is after the end of the chain",
            Self::ChainMissing => "the whole chain is missing",
            Self::WrongFirstRecord => {
                "altered: the first record is not the creation of the tenant or the vault"
            }
            Self::RolledBack => "rolled back or truncated: the saved head has a later record",
            Self::Unreadable => "unreadable",
        })
    }
}

/// Heads and checkpoints of a log, read in the same transaction as the records.
#[derive(Debug, Default)]
pub struct ChainAnchors {
    pub heads: Vec<ChainHead>,
    pub checkpoints: Vec<Checkpoint>,
}

/// Verifies one log. The records must be sorted by tenant and sequence number, ascending.
#[derive(Debug)]
pub struct Verifier {
    log: LogKind,
    key: Arc<AuditKey>,
    heads: BTreeMap<TenantId, ChainHead>,
    checkpoints: BTreeMap<TenantId, Checkpoint>,
    /// From the head file.
    saved_heads: BTreeMap<TenantId, SavedHead>,
    visited: BTreeSet<TenantId>,
    current: Option<ChainProgress>,
    records: u64,
    problems: Vec<ChainProblem>,
}

/// The progress in the current chain.
#[derive(Debug)]
struct ChainProgress {
    tenant: TenantId,
    sequence: i64,
    link: Mac,
    /// The saved head was compared, or its record was pruned.
    is_saved_head_checked: bool,
}

/// The result of a verification.
#[derive(Debug)]
pub struct VerificationReport {
    pub log: LogKind,
    pub chains: u64,
    pub records: u64,
    pub problems: Vec<ChainProblem>,
}

impl Verifier {
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

    fn report(&mut self, tenant: TenantId, sequence: Option<i64>, fault: ChainFault) {
        self.problems.push(ChainProblem { log: self.log, tenant: Some(tenant), sequence, fault });
    }

    /// Reports a row, head or checkpoint that cannot be parsed.
    pub fn report_unreadable(&mut self, tenant: Option<TenantId>) {
        let (log, fault) = (self.log, ChainFault::Unreadable);
        self.problems.push(ChainProblem { log, tenant, sequence: None, fault });
    }

    fn check_anchors(&mut self) {
        let (key, log) = (Arc::clone(&self.key), self.log);
        let altered_heads = self.heads.values().filter(|it| !it.has_valid_mac(&key, log));
        let faults: Vec<_> = altered_heads.map(|it| (it.tenant, ChainFault::HeadAltered)).collect();
        let checkpoints = self.checkpoints.values();
        let checkpoint_faults = checkpoints
            .filter(|it| !it.has_valid_mac(&key, log))
            .map(|it| (it.tenant, ChainFault::CheckpointAltered));
        let faults: Vec<_> = faults.into_iter().chain(checkpoint_faults).collect();
        for (tenant, fault) in faults {
            self.report(tenant, None, fault);
        }
    }

    /// Reports a fault if the vault's own chain is missing. The chain is created with the vault.
    pub fn expect_vault_chain(&mut self) {
        if self.log == LogKind::Read && !self.heads.contains_key(&TenantId::VAULT) {
            self.report(TenantId::VAULT, None, ChainFault::ChainMissing);
        }
    }

    /// Verifies the next record.
    pub fn verify_record(&mut self, row: &LogRow<'_>) {
        self.records = self.records.saturating_add(1);
        if self.current.as_ref().is_none_or(|it| it.tenant != row.tenant) {
            self.finish_chain();
            self.begin_chain(row.tenant);
        }
        let Some(progress) = self.current.take() else { return };
        let expected = progress.sequence.saturating_add(1);
        if row.sequence < expected {
            self.report(row.tenant, Some(row.sequence), ChainFault::Unexpected);
            self.current = Some(progress);
            return;
        }
        if row.sequence > expected {
            self.report(row.tenant, Some(row.sequence.saturating_sub(1)), ChainFault::Missing);
        } else if !row.has_valid_link(&self.key, self.log, progress.link) {
            // A record after a gap cannot be checked: its predecessor is missing.
            self.report(row.tenant, Some(row.sequence), ChainFault::Altered);
        }
        let first_operation = match self.log {
            LogKind::Audit => Some(Operation::CreateTenant),
            LogKind::Read if row.tenant == TenantId::VAULT => Some(Operation::CreateVault),
            LogKind::Read => None,
        };
        if row.sequence == 1 && first_operation.is_some_and(|it| row.operation != it.as_str()) {
            self.report(row.tenant, Some(row.sequence), ChainFault::WrongFirstRecord);
        }
        let mut progress = ChainProgress { sequence: row.sequence, link: row.link, ..progress };
        self.compare_saved_head(&mut progress);
        self.current = Some(progress);
    }

    fn begin_chain(&mut self, tenant: TenantId) {
        self.visited.insert(tenant);
        let checkpoint = self.checkpoints.get(&tenant);
        let (sequence, link) = checkpoint.map_or((0, NO_LINK), |it| (it.sequence, it.link));
        let is_saved_head_checked =
            self.saved_heads.get(&tenant).is_none_or(|it| it.sequence < sequence);
        let mut progress = ChainProgress { tenant, sequence, link, is_saved_head_checked };
        self.compare_saved_head(&mut progress);
        self.current = Some(progress);
    }

    /// Compares with the saved head, if this is the saved record.
    fn compare_saved_head(&mut self, progress: &mut ChainProgress) {
        let Some(saved) =
            self.saved_heads.get(&progress.tenant).filter(|it| it.sequence == progress.sequence)
        else {
            return;
        };
        progress.is_saved_head_checked = true;
        if !saved.link.constant_time_eq(&progress.link) {
            self.report(progress.tenant, Some(progress.sequence), ChainFault::RolledBack);
        }
    }

    fn finish_chain(&mut self) {
        let Some(progress) = self.current.take() else { return };
        let ChainProgress { tenant, sequence, link, is_saved_head_checked } = progress;
        match self.heads.get(&tenant).copied() {
            None => self.report(tenant, None, ChainFault::HeadMissing),
            Some(head) if head.sequence > sequence => {
                self.report(tenant, Some(sequence.saturating_add(1)), ChainFault::Truncated);
            }
            Some(head)
                if head.sequence < sequence
                    && self.checkpoints.get(&tenant).is_some_and(|it| it.sequence == sequence) =>
            {
                self.report(tenant, Some(sequence), ChainFault::CheckpointAhead);
            }
            Some(head) if head.sequence < sequence => {
                self.report(tenant, Some(head.sequence.saturating_add(1)), ChainFault::Unexpected);
            }
            Some(head) if !head.link.constant_time_eq(&link) => {
                self.report(tenant, None, ChainFault::HeadAltered)
            }
            Some(_) => (),
        }
        let saved_sequence =
            self.saved_heads.get(&tenant).filter(|_| !is_saved_head_checked).map(|it| it.sequence);
        if let Some(saved_sequence) = saved_sequence {
            // The saved record is after the end, or in a gap that was already reported.
            let first_missing = saved_sequence.min(sequence.saturating_add(1));
            self.report(tenant, Some(first_missing), ChainFault::RolledBack);
        }
    }

    /// Ends the verification after the last record and returns the report. Each live tenant has at
    /// least the record of its creation.
    pub fn finish(mut self, live_tenants: &[TenantId]) -> VerificationReport {
        self.finish_chain();
        let tenants =
            self.heads.keys().chain(self.checkpoints.keys()).chain(self.saved_heads.keys());
        let unvisited: BTreeSet<_> =
            tenants.filter(|it| !self.visited.contains(it)).copied().collect();
        for tenant in unvisited {
            let is_missing =
                !self.heads.contains_key(&tenant) && !self.checkpoints.contains_key(&tenant);
            if is_missing {
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
            let missing_tenants = live_tenants.iter().filter(|it| !self.heads.contains_key(it));
            for tenant in missing_tenants.copied().collect::<Vec<_>>() {
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

/// The head of a chain as an operator saves it outside of the vault. It proves that records were not
/// removed from the end of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedHead {
    pub log: LogKind,
    pub tenant: TenantId,
    pub sequence: i64,
    pub link: Mac,
}

impl SavedHead {
    pub fn from_head(log: LogKind, head: &ChainHead) -> Self {
        Self { log, tenant: head.tenant, sequence: head.sequence, link: head.link }
    }
}

/// The change of a chain since its head was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadChange {
    Unchanged,
    /// The chain is longer. [`chain_contains`](crate::log_tasks::head_file::chain_contains) decides whether it still has the saved record: a
    /// fork also grows.
    Advanced,
    /// The chain is missing, shorter, or has another end. The file must keep the saved head,
    /// because it is the evidence of the rollback.
    RolledBack,
}

impl SavedHead {
    pub fn change_to(&self, current: Option<&Self>) -> HeadChange {
        let Some(current) = current else { return HeadChange::RolledBack };
        match current.sequence.cmp(&self.sequence) {
            Ordering::Less => HeadChange::RolledBack,
            Ordering::Equal if current.link.constant_time_eq(&self.link) => HeadChange::Unchanged,
            Ordering::Equal => HeadChange::RolledBack,
            Ordering::Greater => HeadChange::Advanced,
        }
    }
}
