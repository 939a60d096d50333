//! The unlock methods of the vault, and the rotation of the vault key.

use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation, WrappedKeys},
    policy::SystemKeys,
    types::{StoreError, id::UnlockId},
    unlock::{UnlockRecord, UnlockState, VaultIdentity},
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        changes::{PolicyTransaction, insert_system_keys, put_seal, raise_version},
        directory::{find_system_keys, find_webhook_signing_key, load_policies},
        restore::replace_policy,
        unlock_rows::{check_wrapping_version, find_identity, load_unlocks},
    },
    sql::{Execute, parameters},
};

const INSERT_VAULT_STATE: &str = "
-- insert_vault_state
INSERT INTO vault_state (singleton, vault_id, key_version) VALUES (1, $1, $2)";

pub(crate) async fn insert_vault<T: PolicyTransaction>(
    transaction: &T,
    keys: &SystemKeys,
    identity: VaultIdentity,
    method: &UnlockRecord,
) -> Result<(), StoreError> {
    insert_system_keys(transaction, keys).await?;
    insert_identity(transaction, identity).await?;
    put_unlock(transaction, method).await
}

pub(crate) async fn adopt_vault<T: PolicyTransaction>(
    transaction: &T,
    identity: VaultIdentity,
    method: &UnlockRecord,
) -> Result<ChangeOutcome, StoreError> {
    // Servers and commands reload, and see the methods.
    raise_version(transaction).await?;
    if !load_unlocks(transaction, T::KEYS.list_unlocks).await?.is_legacy() {
        return Ok(ChangeOutcome::Stale);
    }
    insert_identity(transaction, identity).await?;
    put_unlock(transaction, method).await?;
    Ok(ChangeOutcome::Done)
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

pub(crate) async fn insert_unlock<T: PolicyTransaction>(
    transaction: &T,
    method: &UnlockRecord,
) -> Result<ChangeOutcome, StoreError> {
    raise_version(transaction).await?;
    let identity = find_identity(transaction).await?;
    if identity.is_none_or(|it| it.key_version != method.key_version) {
        return Ok(ChangeOutcome::Stale);
    }
    put_unlock(transaction, method).await?;
    Ok(ChangeOutcome::Done)
}

/// Another node may have made a key first.
const INSERT_WEBHOOK_SIGNING_KEY: &str = "
-- insert_webhook_signing_key
INSERT INTO system_keys (name, wrapped) VALUES ('webhook_signing', $1) ON CONFLICT (name) DO NOTHING";

pub(crate) async fn insert_webhook_signing_key<T: PolicyTransaction>(
    transaction: &T,
    wrapped: &Sealed,
) -> Result<Sealed, StoreError> {
    // A rotation of the vault key waits for this row, or this insertion waits for the rotation.
    raise_version(transaction).await?;
    check_wrapping_version(transaction, wrapped).await?;
    transaction.execute(INSERT_WEBHOOK_SIGNING_KEY, &parameters![wrapped]).await?;
    let missing_key = StoreError::Corrupt("the key that signs deliveries is missing");
    find_webhook_signing_key(transaction).await?.ok_or(missing_key)
}

const ACTIVATE_UNLOCK: &str = "
-- activate_unlock
UPDATE unlocks SET state = $1, mac = $2 WHERE id = $3 AND wrapped = $4";

pub(crate) async fn activate_unlock<T: PolicyTransaction>(
    transaction: &T,
    method: &UnlockRecord,
) -> Result<ChangeOutcome, StoreError> {
    raise_version(transaction).await?;
    let row = parameters![method.state.as_str(), &method.mac, method.id, &method.wrapped];
    let changed =
        overwrite_keys(transaction, async |it: &T| it.execute(ACTIVATE_UNLOCK, &row).await);
    Ok(if changed.await? == 1 { ChangeOutcome::Done } else { ChangeOutcome::Stale })
}

const DELETE_UNLOCK: &str = "
-- delete_unlock
DELETE FROM unlocks WHERE id = $1";

pub(crate) async fn delete_unlock<T: PolicyTransaction>(
    transaction: &T,
    removal: &MethodRemoval,
) -> Result<UnlockRemoval, StoreError> {
    let id = removal.id;
    // Serializes removals: two of them must not remove the last two methods.
    raise_version(transaction).await?;
    let unlocks = load_unlocks(transaction, T::KEYS.list_unlocks).await?;
    let Some(method) = unlocks.find(id) else { return Ok(UnlockRemoval::Missing) };
    let mut active_methods = unlocks.active_methods();
    if method.state == UnlockState::Active && !active_methods.any(|it| it.id != id) {
        return Ok(UnlockRemoval::LastMethod);
    }
    // In the same transaction, so that a removed method is always remembered.
    let keys = parameters![&removal.audit_key_after, &removal.audit_key_before];
    if transaction.execute(REPLACE_AUDIT_KEY, &keys).await? == 0 {
        return Ok(UnlockRemoval::Stale);
    }
    let row = parameters![id];
    overwrite_keys(transaction, async |it: &T| it.execute(DELETE_UNLOCK, &row).await).await?;
    Ok(UnlockRemoval::Removed)
}

const SAVE_UNLOCK_CHECK: &str = "
-- save_unlock_check
UPDATE unlocks SET checked_at = $1 WHERE id = $2";

pub(crate) async fn save_unlock_check<T: PolicyTransaction>(
    transaction: &T,
    id: UnlockId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let row = parameters![at, id];
    // SQLite writes the whole row again.
    let saved =
        overwrite_keys(transaction, async |it: &T| it.execute(SAVE_UNLOCK_CHECK, &row).await);
    saved.await.map(drop)
}

/// Runs statements that replace or delete wrapped keys, so that no copy of them remains.
async fn overwrite_keys<T: PolicyTransaction, R>(
    transaction: &T,
    work: impl AsyncFnOnce(&T) -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    transaction.begin_key_overwrite().await?;
    let result = work(transaction).await;
    let ended = transaction.end_key_overwrite().await;
    let value = result?;
    ended.map(|()| value)
}

const CHANGED: Error = Error::Conflict {
    reason: "the vault key or its unlock methods have changed; nothing was rotated, try again",
};

const RAISE_KEY_VERSION: &str = "
-- raise_key_version
UPDATE vault_state SET key_version = $1 WHERE key_version = $2";

const DELETE_UNLOCKS: &str = "
-- delete_unlocks
DELETE FROM unlocks WHERE id = $1";

pub(crate) async fn rotate_vault_key<T: PolicyTransaction>(
    transaction: &T,
    rotation: VaultKeyRotation,
) -> Result<Result<(), Error>, StoreError> {
    raise_version(transaction).await?;
    let mut present: Vec<_> = load_unlocks(transaction, T::KEYS.list_unlocks)
        .await?
        .methods
        .iter()
        .map(|it| it.id)
        .collect();
    let mut expected = rotation.replaced.clone();
    present.sort();
    expected.sort();
    let versions = parameters![rotation.to, rotation.from];
    let raised = transaction.execute(RAISE_KEY_VERSION, &versions).await?;
    if present != expected || raised != 1 {
        return Ok(Err(CHANGED));
    }
    overwrite_keys(transaction, async |it: &T| {
        let keys = match (rotation.rewrap)(load_wrapped_keys(it).await?) {
            Ok(keys) => keys,
            Err(error) => return Ok(Err(error)),
        };
        put_wrapped_keys(it, &keys).await?;
        for id in &expected {
            it.execute(DELETE_UNLOCKS, &parameters![*id]).await?;
        }
        for method in &rotation.methods {
            put_unlock(it, method).await?;
        }
        Ok(Ok(()))
    })
    .await
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

const REPLACE_AUDIT_KEY: &str = "
-- replace_audit_key
UPDATE system_keys SET wrapped = $1 WHERE name = 'audit' AND wrapped = $2";

pub(crate) async fn replace_audit_key<T: PolicyTransaction>(
    transaction: &T,
    before: &Sealed,
    after: &Sealed,
) -> Result<ChangeOutcome, StoreError> {
    raise_version(transaction).await?;
    check_wrapping_version(transaction, after).await?;
    let row = parameters![after, before];
    Ok(match transaction.execute(REPLACE_AUDIT_KEY, &row).await? {
        0 => ChangeOutcome::Stale,
        _ => ChangeOutcome::Done,
    })
}

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
