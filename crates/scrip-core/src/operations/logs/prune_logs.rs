//! Prune logs: removes the oldest records after the retention time of the tenant's quota, and
//! writes a checkpoint. A background task calls it.

use std::{collections::HashMap, time::Duration};

use crate::{
    Error, Timestamp, Vault,
    audit::{Chain, LogKind, PruneChain},
    policy::Directory,
    types::id::TenantId,
};

/// The retention of the vault's own chain: commands and failed authentication. PCI DSS requires
/// twelve months.
const VAULT_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Returns the chains to prune. Call [`crate::store::AuditStore::prune_chain`] with each until it
/// removes nothing. Uses the earliest possible time, because pruned records cannot be recovered.
pub async fn prune_logs(vault: &Vault, directory: &Directory) -> Result<Vec<PruneChain>, Error> {
    let earliest = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    let now = vault.clock.now();
    let audit_chains = vault.store.list_chains(LogKind::Audit).await?;
    let deleted_retention = deleted_tenant_retention(directory, &audit_chains);
    let read_chains = vault.store.list_chains(LogKind::Read).await?;
    let logs = [(LogKind::Audit, audit_chains), (LogKind::Read, read_chains)].into_iter();
    let chains = logs.flat_map(|(log, chains)| chains.into_iter().map(move |it| (log, it)));
    let due_chains = chains.filter_map(|(log, Chain { head, oldest_at })| {
        // The quota of the checked policy, not of the current row.
        let live_retention = directory.tenant(head.tenant).map(|it| it.quotas.log_retention());
        let vault_retention = (head.tenant == TenantId::VAULT).then_some(VAULT_RETENTION);
        let retention = live_retention
            .or(vault_retention)
            .or_else(|| deleted_retention.get(&head.tenant).copied())?;
        let before: Timestamp = earliest.minus(retention);
        oldest_at.filter(|it| *it < before)?;
        let key = directory.audit_key().clone();
        Some(PruneChain { log, tenant: head.tenant, before, at: now, key })
    });
    Ok(due_chains.collect())
}

/// The log retention of deleted tenants, for both logs: from the head of the audit log, if its MAC
/// is valid. The logs of a tenant with an altered policy are not pruned.
fn deleted_tenant_retention(directory: &Directory, audit: &[Chain]) -> HashMap<TenantId, Duration> {
    let key = directory.audit_key();
    let valid_heads =
        audit.iter().map(|it| it.head).filter(|it| it.has_valid_mac(key, LogKind::Audit));
    let retention = valid_heads.filter_map(|it| {
        let seconds = u64::try_from(it.retention_seconds?).ok()?;
        Some((it.tenant, Duration::from_secs(seconds)))
    });
    retention.collect()
}
