//! The unlock methods of the vault, and the rotation of the vault key.

use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation, WrappedKeys},
    policy::SystemKeys,
    store::UnlockStore,
    types::{
        StoreError, StoreFuture,
        id::{TenantId, UnlockId},
    },
    unlock::{UnlockRecord, UnlockState, VaultIdentity, VaultUnlocks},
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        changes::{PolicyTransaction, insert_system_keys, put_seal, raise_version},
        directory::{find_system_keys, find_webhook_signing_key, load_policies},
        unlock_rows::{check_wrapping_version, find_identity, load_unlocks},
    },
    sql::{Execute, parameters},
    stores::policy::replace_policy,
};

const INSERT_VAULT_STATE: &str = "
-- insert_vault_state
INSERT INTO vault_state (singleton, vault_id, key_version) VALUES (1, $1, $2)";

const ACTIVATE_UNLOCK: &str = "
-- activate_unlock
UPDATE unlocks SET state = $1, mac = $2 WHERE id = $3 AND wrapped = $4";

const DELETE_UNLOCK: &str = "
-- delete_unlock
DELETE FROM unlocks WHERE id = $1";

const SAVE_UNLOCK_CHECK: &str = "
-- save_unlock_check
UPDATE unlocks SET checked_at = $1 WHERE id = $2";

const CHANGED: Error = Error::Conflict {
    reason: "the vault key or its unlock methods have changed; nothing was rotated, try again",
};

const RAISE_KEY_VERSION: &str = "
-- raise_key_version
UPDATE vault_state SET key_version = $1 WHERE key_version = $2";

const DELETE_UNLOCKS: &str = "
-- delete_unlocks
DELETE FROM unlocks WHERE id = $1";

const REPLACE_AUDIT_KEY: &str = "
-- replace_audit_key
UPDATE system_keys SET wrapped = $1 WHERE name = 'audit' AND wrapped = $2";

const PUT_SYSTEM_KEY: &str = "
-- put_system_key
UPDATE system_keys SET wrapped = $1 WHERE name = $2";

const REPLACE_TENANT_KEY: &str = "
-- replace_tenant_key
UPDATE tenant_keys SET wrapped = $1 WHERE tenant = $2 AND version = $3";

const REPLACE_PERMANENT_KEY: &str = "
-- replace_permanent_key
UPDATE permanent_keys SET wrapped = $1 WHERE tenant = $2";

/// The MAC of a tenant's row covers its wrapped keys.
const REPLACE_TENANT_MAC: &str = "
-- replace_tenant_mac
UPDATE tenants SET mac = $1 WHERE id = $2";

for_both_engines! {
impl UnlockStore {
    fn insert_vault(
        &self,
        keys: SystemKeys,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            insert_system_keys(it, &keys).await?;
            insert_identity(it, identity).await?;
            put_unlock(it, &method).await
        }))
    }

    fn load_unlocks(&self) -> StoreFuture<'_, VaultUnlocks> {
        Box::pin(async move { load_unlocks(&self.for_all_tenants(), Self::KEYS.list_unlocks).await })
    }

    fn adopt_vault(
        &self,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            // Servers and commands reload, and see the methods.
            raise_version(it).await?;
            if !load_unlocks(it, Self::KEYS.list_unlocks).await?.is_legacy() {
                return Ok(ChangeOutcome::Stale);
            }
            insert_identity(it, identity).await?;
            put_unlock(it, &method).await?;
            Ok(ChangeOutcome::Done)
        }))
    }

    fn insert_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            raise_version(it).await?;
            let identity = find_identity(it).await?;
            if identity.is_none_or(|it| it.key_version != method.key_version) {
                return Ok(ChangeOutcome::Stale);
            }
            put_unlock(it, &method).await?;
            Ok(ChangeOutcome::Done)
        }))
    }

    fn activate_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            raise_version(it).await?;
            let UnlockRecord { id, wrapped, state, mac, .. } = &method;
            let row = parameters![state.as_str(), mac, *id, wrapped];
            it.begin_key_overwrite().await?;
            let changed = it.execute(ACTIVATE_UNLOCK, &row).await;
            let changed = end_key_overwrite(it, changed).await?;
            Ok(if changed == 1 { ChangeOutcome::Done } else { ChangeOutcome::Stale })
        }))
    }

    fn delete_unlock(&self, removal: MethodRemoval) -> StoreFuture<'_, UnlockRemoval> {
        let delete = self.write(TenantId::VAULT, async move |it| {
            let id = removal.id;
            // Serializes removals: two of them must not remove the last two methods.
            raise_version(it).await?;
            let unlocks = load_unlocks(it, Self::KEYS.list_unlocks).await?;
            let Some(method) = unlocks.find(id) else { return Ok(UnlockRemoval::Missing) };
            let mut active_methods = unlocks.active_methods();
            if method.state == UnlockState::Active && !active_methods.any(|it| it.id != id) {
                return Ok(UnlockRemoval::LastMethod);
            }
            // In the same transaction, so that a removed method is always remembered.
            let keys = parameters![&removal.audit_key_after, &removal.audit_key_before];
            if it.execute(REPLACE_AUDIT_KEY, &keys).await? == 0 {
                return Ok(UnlockRemoval::Stale);
            }
            it.begin_key_overwrite().await?;
            let deleted = it.execute(DELETE_UNLOCK, &parameters![id]).await;
            end_key_overwrite(it, deleted).await?;
            Ok(UnlockRemoval::Removed)
        });
        Box::pin(async move {
            let removal = delete.await?;
            self.erase_log().await?;
            Ok(removal)
        })
    }

    fn save_unlock_check(&self, id: UnlockId, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            // SQLite writes the whole row again.
            it.begin_key_overwrite().await?;
            let saved = it.execute(SAVE_UNLOCK_CHECK, &parameters![at, id]).await;
            end_key_overwrite(it, saved).await.map(drop)
        }))
    }

    fn replace_audit_key(&self, before: Sealed, after: Sealed) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            raise_version(it).await?;
            check_wrapping_version(it, &after).await?;
            Ok(match it.execute(REPLACE_AUDIT_KEY, &parameters![&after, &before]).await? {
                0 => ChangeOutcome::Stale,
                _ => ChangeOutcome::Done,
            })
        }))
    }

    fn rotate_vault_key(&self, rotation: VaultKeyRotation) -> StoreFuture<'_, Result<(), Error>> {
        let rotate = self.write(TenantId::VAULT, async move |it| {
            raise_version(it).await?;
            let methods = load_unlocks(it, Self::KEYS.list_unlocks).await?.methods;
            let mut present: Vec<_> = methods.iter().map(|it| it.id).collect();
            let mut expected = rotation.replaced.clone();
            present.sort();
            expected.sort();
            let versions = parameters![rotation.to, rotation.from];
            let raised = it.execute(RAISE_KEY_VERSION, &versions).await?;
            if present != expected || raised != 1 {
                return Ok(Err(CHANGED));
            }
            it.begin_key_overwrite().await?;
            let replaced = replace_keys(it, rotation, &expected).await;
            end_key_overwrite(it, replaced).await
        });
        Box::pin(async move {
            let result = rotate.await?;
            self.erase_log().await?;
            Ok(result)
        })
    }
}
}

async fn insert_identity(
    transaction: &impl Execute,
    identity: VaultIdentity,
) -> Result<(), StoreError> {
    let row = parameters![identity.id, identity.key_version];
    transaction.execute(INSERT_VAULT_STATE, &row).await.map(drop)
}

async fn put_unlock<T: PolicyTransaction>(
    transaction: &T,
    method: &UnlockRecord,
) -> Result<(), StoreError> {
    let row = parameters![
        method.id,
        &method.wrapped,
        method.kind.as_str(),
        &method.label,
        &method.parameters,
        method.key_version,
        method.created_at,
        method.checked_at,
        method.state.as_str(),
        &method.mac,
    ];
    transaction.execute(T::KEYS.insert_unlock, &row).await.map(drop)
}

/// Ends the statements that replace or delete wrapped keys, so that no copy of them remains. Returns
/// their result.
async fn end_key_overwrite<T: PolicyTransaction, R>(
    transaction: &T,
    result: Result<R, StoreError>,
) -> Result<R, StoreError> {
    let ended = transaction.end_key_overwrite().await;
    let value = result?;
    ended.map(|()| value)
}

/// Wraps all keys with the new vault key, and replaces the unlock methods.
async fn replace_keys<T: PolicyTransaction>(
    transaction: &T,
    rotation: VaultKeyRotation,
    replaced: &[UnlockId],
) -> Result<Result<(), Error>, StoreError> {
    let keys = match (rotation.rewrap)(load_wrapped_keys(transaction).await?) {
        Ok(keys) => keys,
        Err(error) => return Ok(Err(error)),
    };
    put_wrapped_keys(transaction, &keys).await?;
    for id in replaced {
        transaction.execute(DELETE_UNLOCKS, &parameters![*id]).await?;
    }
    for method in &rotation.methods {
        put_unlock(transaction, method).await?;
    }
    Ok(Ok(()))
}

async fn load_wrapped_keys<T: PolicyTransaction>(
    transaction: &T,
) -> Result<WrappedKeys, StoreError> {
    let system_keys = find_system_keys(transaction).await?;
    let SystemKeys { pepper, audit_key } =
        system_keys.ok_or(StoreError::Corrupt("a vault key is missing"))?;
    let webhook_signing_key = find_webhook_signing_key(transaction).await?;
    let mut unreadable = Vec::new();
    let policies = load_policies(transaction, &T::KEYS, None, &mut unreadable).await?;
    if !unreadable.is_empty() {
        return Err(StoreError::Corrupt("a policy row is invalid; run: scrip doctor"));
    }
    Ok(WrappedKeys { pepper, audit_key, webhook_signing_key, policies, is_renewed: false })
}

async fn put_wrapped_keys<T: PolicyTransaction>(
    transaction: &T,
    keys: &WrappedKeys,
) -> Result<(), StoreError> {
    let webhook_signing_key = keys.webhook_signing_key.as_ref().map(|it| ("webhook_signing", it));
    let system_keys = [("pepper", &keys.pepper), ("audit", &keys.audit_key)];
    for (name, wrapped) in system_keys.into_iter().chain(webhook_signing_key) {
        transaction.execute(PUT_SYSTEM_KEY, &parameters![wrapped, name]).await?;
    }
    for policy in &keys.policies {
        let tenant = &policy.tenant.record;
        if keys.is_renewed {
            replace_policy(transaction, policy).await?;
        }
        for (version, wrapped) in &tenant.keys.sealing {
            let row = parameters![wrapped, tenant.id, *version];
            transaction.execute(REPLACE_TENANT_KEY, &row).await?;
        }
        let row = parameters![&tenant.keys.permanent, tenant.id];
        transaction.execute(REPLACE_PERMANENT_KEY, &row).await?;
        let row = parameters![&policy.tenant.mac, tenant.id];
        transaction.execute(REPLACE_TENANT_MAC, &row).await?;
        put_seal(transaction, tenant.id, policy.seal).await?;
    }
    Ok(())
}
