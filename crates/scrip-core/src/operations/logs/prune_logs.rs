//! Prune the logs: what a tenant's quota does not keep any longer goes, from the front, and leaves
//! a checkpoint. Nobody asks for it.

use std::{collections::HashMap, time::Duration};

use crate::{
    Error, Timestamp, Vault,
    audit::{Chain, LogKind, PruneChain},
    id::TenantId,
    policy::Directory,
};

/// How long the vault keeps its own chain: commands and failed authentication. PCI DSS asks for
/// twelve months.
const VAULT_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// What there is to prune now, for [`crate::store::AuditStore::prune_chain`] to be called with until it
/// removes nothing. By the earliest that it can be: what is removed cannot be brought back.
///
/// # Errors
/// The store did not answer.
pub async fn prune_logs(vault: &Vault, directory: &Directory) -> Result<Vec<PruneChain>, Error> {
    let earliest = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?;
    let now = vault.clock.now();
    let audit = vault.store.list_chains(LogKind::Audit).await?;
    let deleted_retention = deleted_tenant_retention(directory, &audit);
    let access = vault.store.list_chains(LogKind::Read).await?;
    let all = [(LogKind::Audit, audit), (LogKind::Read, access)].into_iter();
    let all = all.flat_map(|(log, chains)| chains.into_iter().map(move |it| (log, it)));
    let due = all.filter_map(|(log, Chain { head, oldest_at: oldest })| {
        // The policy as it was checked, and not what a row says now.
        let living = directory.tenant(head.tenant).map(|it| it.quotas.log_retention());
        let of_vault = (head.tenant == TenantId::VAULT).then_some(VAULT_RETENTION);
        let retention =
            living.or(of_vault).or_else(|| deleted_retention.get(&head.tenant).copied())?;
        let before: Timestamp = earliest.minus(retention);
        oldest.filter(|it| *it < before)?;
        let key = directory.audit_key().clone();
        Some(PruneChain { log, tenant: head.tenant, before, at: now, key })
    });
    Ok(due.collect())
}

/// How long the records of deleted tenants are kept, in both logs: what the head of its audit log
/// says, if that is ours. Of a tenant that is there and cannot be believed nothing is pruned.
fn deleted_tenant_retention(directory: &Directory, audit: &[Chain]) -> HashMap<TenantId, Duration> {
    let key = directory.audit_key();
    let ours = audit.iter().map(|it| it.head).filter(|it| it.has_valid_mac(key, LogKind::Audit));
    let retention = ours.filter_map(|it| {
        let seconds = u64::try_from(it.retention_seconds?).ok()?;
        Some((it.tenant, Duration::from_secs(seconds)))
    });
    retention.collect()
}
