//! The end of a chain's retention: pruning at its front, and new signatures after a change of the audit
//! key.

use std::sync::Arc;

use scrip_seal::{AuditKey, Mac};

use crate::{
    Timestamp,
    audit::{ChainHead, Checkpoint, LogKind, LogRecord, chain::NO_LINK},
    types::id::TenantId,
};

/// A request to sign the head and the checkpoint of a chain with the newest audit key.
#[derive(Debug, Clone)]
pub struct ResignChain {
    pub log: LogKind,
    pub tenant: TenantId,
    pub(crate) key: Arc<AuditKey>,
}

impl ResignChain {
    /// The MAC of the newest key. `None` for an altered row, which must stay invalid.
    pub fn head_mac(&self, head: &ChainHead) -> Option<Mac> {
        let is_valid = head.tenant == self.tenant && head.has_valid_mac(&self.key, self.log);
        is_valid.then(|| head.compute_mac(&self.key, self.log))
    }

    /// As [`ResignChain::head_mac`], for the checkpoint.
    pub fn checkpoint(&self, checkpoint: Checkpoint) -> Option<Checkpoint> {
        let is_valid =
            checkpoint.tenant == self.tenant && checkpoint.has_valid_mac(&self.key, self.log);
        is_valid
            .then(|| Checkpoint { mac: checkpoint.compute_mac(&self.key, self.log), ..checkpoint })
    }
}

/// A request to prune one chain. It checks the records before they are removed and signs the new
/// checkpoint.
#[derive(Debug, Clone)]
pub struct PruneChain {
    pub log: LogKind,
    pub tenant: TenantId,
    /// Prune records older than this time.
    pub(crate) before: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) key: Arc<AuditKey>,
}

/// The chain is broken, so it is not pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenChain;

impl PruneChain {
    /// The number of records at the front to prune. A command uses the clock of its machine, which
    /// may be far ahead. Later records of a server show the correct time.
    fn due_count(&self, records: &[LogRecord]) -> usize {
        let mut due_count = 0_usize;
        for (index, record) in records.iter().enumerate() {
            let is_due = record.at < self.before;
            if is_due && (due_count == index || !record.is_from_command()) {
                due_count = index.saturating_add(1);
            } else if !is_due && !record.is_from_command() {
                break;
            }
        }
        due_count
    }

    /// The checkpoint up to which these records, the first ones of the chain, may be removed;
    /// `None` when the first record is not due. Only records at the front are pruned.
    ///
    /// Errors: the records do not continue the existing checkpoint, or were altered: removing them
    /// with a signed checkpoint would hide the alteration.
    pub fn checkpoint(
        &self,
        previous: Option<&Checkpoint>,
        records: &[LogRecord],
    ) -> Result<Option<Checkpoint>, BrokenChain> {
        if previous
            .is_some_and(|it| it.tenant != self.tenant || !it.has_valid_mac(&self.key, self.log))
        {
            return Err(BrokenChain);
        }
        let (mut sequence, mut link) = previous.map_or((0, NO_LINK), |it| (it.sequence, it.link));
        let first_sequence = sequence;
        for record in records.iter().take(self.due_count(records)) {
            let row = record.to_row();
            let is_next =
                row.tenant == self.tenant && sequence.checked_add(1) == Some(row.sequence);
            if !is_next || !row.has_valid_link(&self.key, self.log, link) {
                return Err(BrokenChain);
            }
            (sequence, link) = (row.sequence, row.link);
        }
        if sequence == first_sequence {
            return Ok(None);
        }
        let mut checkpoint =
            Checkpoint { tenant: self.tenant, sequence, link, at: self.at, mac: NO_LINK };
        checkpoint.mac = checkpoint.compute_mac(&self.key, self.log);
        Ok(Some(checkpoint))
    }
}
