//! Start Key Rotation: adds a version of a tenant's sealing key, which only opens at first.

use scrip_seal::KeySource;

use crate::{
    Error, Vault,
    keys::key_rotation::{KeyRotation, RotationPhase},
    operations::key_rotations::{KeyChange, KeyChangeWrite, change_keys, key_change_record},
    policy::{PolicyPermit, TenantRecord},
    types::Operation,
};

/// Starts a rotation. A background task of a server does the rest.
/// Errors: a rotation is running, the tenant does not exist, or the key source is unavailable.
pub async fn start_key_rotation(
    vault: &Vault,
    permit: PolicyPermit,
    source: &dyn KeySource,
) -> Result<KeyRotation, Error> {
    let tenant = permit.tenant();
    if RotationPhase::for_tenant(tenant) != RotationPhase::Idle {
        return Err(Error::Conflict { reason: ALREADY_RUNNING });
    }
    let id = tenant.id;
    // Outside of the transaction: the key source may be another machine.
    let (version, wrapped) = tenant.keys.create_version(source, &id.to_string())?;
    let change = move |record: &TenantRecord| {
        if record.keys.sealing.len() > 1 || record.keys.newest_version() >= Some(version) {
            return Err(Error::Conflict { reason: ALREADY_RUNNING });
        }
        let mut tenant = record.clone();
        tenant.keys.add_version(version, wrapped);
        Ok(KeyChange { tenant, destroyed_versions: Vec::new() })
    };
    let rotation = KeyRotation::new(id, version, vault.clock.now());
    let operation = Operation::StartKeyRotation;
    let audit = key_change_record(vault, &permit, operation, None);
    change_keys(vault, permit, audit, KeyChangeWrite::Change, change).await?;
    // If the process ends here, the background task stores the rotation.
    vault.store.insert_key_rotation(rotation.clone()).await?;
    Ok(rotation)
}

const ALREADY_RUNNING: &str = "a rotation of this tenant's key is running";
