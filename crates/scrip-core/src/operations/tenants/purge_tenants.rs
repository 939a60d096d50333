//! Purge Tenants: rows that deleted tenants left, whose keys are gone. A sweeper calls it.

use crate::{
    audit::LogKind, error::Error, id::TenantId, policy::Directory, store::StoreError, vault::Vault,
};

/// Removes some of the rows of deleted tenants; how many. Rows in the list of deleted tenants that
/// are not ours are passed over: adding one does not purge a living tenant.
///
/// # Errors
/// The store did not answer.
pub async fn purge_tenants(vault: &Vault, deleted: &[TenantId]) -> Result<usize, StoreError> {
    let Some(key) = vault.audit_trail.key() else { return Ok(0) };
    let listed = vault.store.list_deleted_tenants().await?;
    let ours = listed.iter().filter(|it| it.has_valid_mac(key)).map(|it| it.tenant);
    let mut tenants: Vec<_> = ours.chain(deleted.iter().copied()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let now = vault.store.cap_at_shared_clock(vault.clock.now()).await?;
    vault.store.purge_tenants(tenants, now).await
}

/// Tenants in the list of deleted ones that no server of this vault put there.
///
/// # Errors
/// The store did not answer.
pub async fn find_forged_deletions(vault: &Vault) -> Result<Vec<TenantId>, StoreError> {
    let Some(key) = vault.audit_trail.key() else { return Ok(Vec::new()) };
    let listed = vault.store.list_deleted_tenants().await?;
    Ok(listed.iter().filter(|it| !it.has_valid_mac(key)).map(|it| it.tenant).collect())
}

/// Deleted tenants as the audit log knows them, whose chains ended with a head that is ours. They
/// are purged once in each run of a server, in case their rows were removed from the list.
///
/// # Errors
/// The store did not answer.
pub async fn find_deleted_tenants(
    vault: &Vault,
    directory: &Directory,
) -> Result<Vec<TenantId>, Error> {
    let key = directory.audit_key();
    let heads = vault.store.list_heads(LogKind::Audit).await?;
    let ended = heads.iter().filter(|it| {
        it.retention_seconds.is_some()
            && it.has_valid_mac(key, LogKind::Audit)
            && !directory.has_row(it.tenant)
    });
    Ok(ended.map(|it| it.tenant).collect())
}
