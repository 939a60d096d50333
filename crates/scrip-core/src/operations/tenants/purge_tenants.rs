//! Purge Tenants: removes the rows of deleted tenants after their keys are destroyed. A background
//! task calls it.

use crate::{
    Error, Vault,
    audit::LogKind,
    policy::Directory,
    types::{StoreError, id::TenantId},
};

/// Removes some of the rows of deleted tenants; returns how many. Rows with an invalid MAC in the
/// list of deleted tenants are skipped, so an added row does not purge a live tenant.
pub async fn purge_tenants(vault: &Vault, deleted: &[TenantId]) -> Result<usize, StoreError> {
    let Some(key) = vault.audit_trail.key() else { return Ok(0) };
    let listed = vault.store.list_deleted_tenants().await?;
    let valid_ids = listed.iter().filter(|it| it.has_valid_mac(key)).map(|it| it.tenant);
    let mut tenants: Vec<_> = valid_ids.chain(deleted.iter().copied()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let now = vault.store.cap_at_shared_clock(vault.clock.now()).await?;
    vault.store.purge_tenants(tenants, now).await
}

/// Tenants in the list of deleted tenants with an invalid MAC: no server of this vault wrote them.
pub async fn find_forged_deletions(vault: &Vault) -> Result<Vec<TenantId>, StoreError> {
    let Some(key) = vault.audit_trail.key() else { return Ok(Vec::new()) };
    let listed = vault.store.list_deleted_tenants().await?;
    Ok(listed.iter().filter(|it| !it.has_valid_mac(key)).map(|it| it.tenant).collect())
}

/// Deleted tenants according to the audit log: the heads of their chains are closed and valid. Each
/// server start purges them once, in case their rows were removed from the list.
pub async fn find_deleted_tenants(
    vault: &Vault,
    directory: &Directory,
) -> Result<Vec<TenantId>, Error> {
    let key = directory.audit_key();
    let heads = vault.store.list_heads(LogKind::Audit).await?;
    let closed_heads = heads.iter().filter(|it| {
        it.retention_seconds.is_some()
            && it.has_valid_mac(key, LogKind::Audit)
            && !directory.has_row(it.tenant)
    });
    Ok(closed_heads.map(|it| it.tenant).collect())
}
