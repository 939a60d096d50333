//! The head of a chain as an operator saves it outside of the vault, and its comparison with a
//! later head. A saved head proves that records were not removed from the end of the chain.

use std::cmp::Ordering;

use scrip_seal::Mac;

use crate::{
    audit::{ChainHead, LogKind},
    types::id::TenantId,
};

/// The saved head of a chain.
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
