//! What the signed rows of the vault say about the deletion of a tenant. Policy rows may be
//! altered, but the list of deleted tenants and the audit log have MACs.

use std::collections::HashSet;

use scrip_seal::{AuditKey, Mac};

use crate::{
    Timestamp, Vault,
    audit::{LogKind, LogRecord, chain::NO_LINK},
    types::{Operation, StoreError, id::TenantId},
    work_meter::yield_now,
};

/// The number of records per step of a search.
const WINDOW_RECORDS: i64 = 1000;

/// The deletion of a tenant according to signed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedDeletion {
    /// The keys of the tenant are destroyed.
    Completed,
    /// The newest request is a deletion, at this time.
    Requested(Timestamp),
    /// No deletion was requested, or it was undone.
    None,
    /// The audit log of the tenant is missing or altered, so it proves nothing.
    Unknown,
}

/// Tenants with destroyed keys, from the list of deleted tenants and from the closed chains of the
/// audit log. Either is enough: the list is purged after a while, and an attacker can remove rows.
pub async fn list_completed_deletions(
    vault: &Vault,
    key: &AuditKey,
) -> Result<HashSet<TenantId>, StoreError> {
    let listed = vault.store.list_deleted_tenants().await?;
    let listed = listed.iter().filter(|it| it.has_valid_mac(key)).map(|it| it.tenant);
    let heads = vault.store.list_heads(LogKind::Audit).await?;
    let closed_heads = heads
        .iter()
        .filter(|it| it.retention_seconds.is_some() && it.has_valid_mac(key, LogKind::Audit));
    Ok(listed.chain(closed_heads.map(|it| it.tenant)).collect())
}

/// Finds the newest request to delete or to restore the tenant in the records after `after`.
///
/// The chain is checked from its head down to that record: a removed record would hide the request.
/// Pruned records hide none: the log of a deleted tenant or of an altered policy is not pruned.
pub async fn find_recorded_deletion(
    vault: &Vault,
    tenant: TenantId,
    after: i64,
) -> Result<RecordedDeletion, StoreError> {
    let Some(key) = vault.audit_trail.key() else { return Ok(RecordedDeletion::Unknown) };
    if list_completed_deletions(vault, key).await?.contains(&tenant) {
        return Ok(RecordedDeletion::Completed);
    }
    let heads = vault.store.list_heads(LogKind::Audit).await?;
    let head = heads.iter().find(|it| it.tenant == tenant);
    let Some(head) = head.filter(|it| it.has_valid_mac(key, LogKind::Audit)) else {
        return Ok(RecordedDeletion::Unknown);
    };
    let checkpoint = vault.store.find_checkpoint(LogKind::Audit, tenant).await?;
    if checkpoint.is_some_and(|it| !it.has_valid_mac(key, LogKind::Audit)) {
        return Ok(RecordedDeletion::Unknown);
    }
    let start = checkpoint.map_or(ChainPosition { sequence: 0, link: NO_LINK }, |it| {
        ChainPosition { sequence: it.sequence, link: it.link }
    });
    // Each change of a policy appends a record, so the chain is at least this long.
    if head.sequence < after || head.sequence < start.sequence {
        return Ok(RecordedDeletion::Unknown);
    }
    let mut end = ChainPosition { sequence: head.sequence, link: head.link };
    while end.sequence > start.sequence && end.sequence > after {
        let window = load_window(vault, tenant, start, end).await?;
        let Some(window) = window.filter(|it| it.is_authentic(key, end)) else {
            return Ok(RecordedDeletion::Unknown);
        };
        if let Some(deletion) = window.records.iter().rev().find_map(requested_deletion) {
            return Ok(deletion);
        }
        end = window.start;
        yield_now().await;
    }
    Ok(RecordedDeletion::None)
}

/// A record of the chain.
#[derive(Debug, Clone, Copy)]
struct ChainPosition {
    sequence: i64,
    link: Mac,
}

/// Successive records of a chain.
struct ChainWindow {
    /// The position before the first record.
    start: ChainPosition,
    records: Vec<LogRecord>,
}

/// Loads the records up to `end`. Returns `None` if the record before them is missing.
async fn load_window(
    vault: &Vault,
    tenant: TenantId,
    chain_start: ChainPosition,
    end: ChainPosition,
) -> Result<Option<ChainWindow>, StoreError> {
    let low = end.sequence.saturating_sub(WINDOW_RECORDS);
    // One more record: its link is part of the next one.
    let after = low.saturating_sub(1).max(chain_start.sequence);
    let limit = usize::try_from(end.sequence.saturating_sub(after)).unwrap_or(usize::MAX);
    let records = vault.store.list_records(LogKind::Audit, tenant, after, limit).await?;
    if low <= chain_start.sequence {
        return Ok(Some(ChainWindow { start: chain_start, records }));
    }
    let mut records = records.into_iter();
    let first = records.next().filter(|it| it.sequence == low);
    Ok(first.map(|it| ChainWindow {
        start: ChainPosition { sequence: it.sequence, link: it.link },
        records: records.collect(),
    }))
}

impl ChainWindow {
    /// Whether the records continue each other and end at `end`.
    fn is_authentic(&self, key: &AuditKey, end: ChainPosition) -> bool {
        let mut last = self.start;
        for record in &self.records {
            let is_next = last.sequence.checked_add(1) == Some(record.sequence);
            if !is_next || !record.to_row().has_valid_link(key, LogKind::Audit, last.link) {
                return false;
            }
            last = ChainPosition { sequence: record.sequence, link: record.link };
        }
        last.sequence == end.sequence && last.link.constant_time_eq(&end.link)
    }
}

/// The deletion that a record requests or undoes; `None` for other records.
fn requested_deletion(record: &LogRecord) -> Option<RecordedDeletion> {
    if record.operation == Operation::DeleteTenant.as_str() {
        Some(RecordedDeletion::Requested(record.at))
    } else if record.operation == Operation::RestoreTenant.as_str() {
        Some(RecordedDeletion::None)
    } else {
        None
    }
}
