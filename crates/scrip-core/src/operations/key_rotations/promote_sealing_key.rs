//! Promote Sealing Key, by the vault: the newest version seals from now on.

use std::sync::Arc;

use crate::{
    Error, Vault,
    operations::key_rotations::{KeyChange, KeyChangeWrite, change_keys, key_change_record},
    policy::{PolicyPermit, Tenant, TenantRecord},
    types::Operation,
};

/// Makes the newest version seal, and seals the policy of the tenant with it in the same
/// transaction. Every node must have loaded the version.
///
/// Errors: the store is unavailable, or the policy of the tenant was altered outside of the vault.
pub async fn promote_sealing_key(vault: &Vault, tenant: &Arc<Tenant>) -> Result<(), Error> {
    let permit = PolicyPermit::for_vault(Arc::clone(tenant));
    let loaded_version = tenant.keys.newest_version();
    let change = move |record: &TenantRecord| {
        // This node must be able to open what it seals from now on.
        let is_promoted = record.keys.current_version() == Some(loaded_version);
        if record.keys.newest_version() != Some(loaded_version) || is_promoted {
            return Err(Error::Conflict { reason: "the keys of the tenant changed" });
        }
        let mut tenant = record.clone();
        tenant.keys.promote_newest();
        Ok(KeyChange { tenant, destroyed_versions: Vec::new() })
    };
    let operation = Operation::PromoteSealingKey;
    let audit = key_change_record(vault, &permit, operation, None);
    change_keys(vault, permit, audit, KeyChangeWrite::Change, change).await
}
