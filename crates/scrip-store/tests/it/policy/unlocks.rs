//! Unlock methods and the rotation of the vault key behave the same on every engine.

use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation, WrappedKeys},
    policy::Directory,
    types::id::{UnlockId, VaultId},
    unlock::{UnlockKind, UnlockRecord, UnlockState, VaultIdentity},
};
use scrip_seal::{Mac, Secret, VaultKey, WebhookSigningKey};
use scrip_testing::{vault::root_key, vault_harness::VaultHarness};
use uuid::Uuid;

on_every_engine! {
    VaultHarness;
    vault_is_adopted_once
    method_of_another_key_version_is_not_inserted
    last_active_method_is_not_removed
    pending_method_becomes_active_once
    rotation_rewraps_every_key
    rotation_of_changed_methods_is_a_conflict
    key_of_an_earlier_vault_key_is_not_inserted
}

const VAULT: VaultId = VaultId(Uuid::from_u128(7));

fn identity() -> VaultIdentity {
    VaultIdentity { id: VAULT, key_version: 1 }
}

pub(crate) fn method(number: u128, key_version: u32) -> UnlockRecord {
    UnlockRecord {
        id: UnlockId(Uuid::from_u128(number)),
        kind: UnlockKind::File,
        label: format!("method {number}"),
        parameters: "{}".to_owned(),
        wrapped: vec![7; 100],
        key_version,
        created_at: Timestamp { unix_ms: 1_000 },
        checked_at: None,
        state: UnlockState::Active,
        mac: Mac([3; 32]),
    }
}

/// Gives the vault its first unlock method.
pub(crate) async fn adopt_vault(harness: &VaultHarness) {
    let adopted = harness.vault.store.adopt_vault(identity(), method(1, 1)).await;
    assert_eq!(adopted.unwrap(), ChangeOutcome::Done);
}

async fn vault_is_adopted_once(harness: VaultHarness) {
    let store = &harness.vault.store;
    assert!(store.load_unlocks().await.unwrap().is_legacy());
    adopt_vault(&harness).await;
    let second = store.adopt_vault(identity(), method(2, 1)).await.unwrap();
    assert_eq!(second, ChangeOutcome::Stale);
    let unlocks = store.load_unlocks().await.unwrap();
    assert_eq!((unlocks.identity, unlocks.methods), (Some(identity()), vec![method(1, 1)]));
    assert_eq!(store.load_directory().await.unwrap().unlocks.methods, [method(1, 1)]);
    let at = Timestamp { unix_ms: 5_000 };
    store.save_unlock_check(method(1, 1).id, at).await.unwrap();
    assert_eq!(store.load_unlocks().await.unwrap().methods[0].checked_at, Some(at));
}

async fn method_of_another_key_version_is_not_inserted(harness: VaultHarness) {
    let store = &harness.vault.store;
    assert_eq!(store.insert_unlock(method(1, 1)).await.unwrap(), ChangeOutcome::Stale);
    adopt_vault(&harness).await;
    assert_eq!(store.insert_unlock(method(2, 2)).await.unwrap(), ChangeOutcome::Stale);
    assert_eq!(store.insert_unlock(method(2, 1)).await.unwrap(), ChangeOutcome::Done);
    assert_eq!(store.load_unlocks().await.unwrap().methods, [method(1, 1), method(2, 1)]);
}

async fn last_active_method_is_not_removed(harness: VaultHarness) {
    let store = &harness.vault.store;
    adopt_vault(&harness).await;
    let pending = UnlockRecord { state: UnlockState::Pending, ..method(2, 1) };
    store.insert_unlock(pending.clone()).await.unwrap();
    let remove = async |number| {
        let keys = store.load_directory().await.unwrap().system_keys.unwrap();
        let id = UnlockId(Uuid::from_u128(number));
        let [audit_key_before, audit_key_after] = [keys.audit_key.clone(), keys.audit_key];
        store.delete_unlock(MethodRemoval { id, audit_key_before, audit_key_after }).await
    };
    assert_eq!(remove(1).await.unwrap(), UnlockRemoval::LastMethod);
    assert_eq!(remove(2).await.unwrap(), UnlockRemoval::Removed);
    assert_eq!(remove(2).await.unwrap(), UnlockRemoval::Missing);
    store.insert_unlock(method(3, 1)).await.unwrap();
    assert_eq!(remove(1).await.unwrap(), UnlockRemoval::Removed);
    assert_eq!(remove(3).await.unwrap(), UnlockRemoval::LastMethod);
    store.insert_unlock(method(4, 1)).await.unwrap();
    let keys = store.load_directory().await.unwrap().system_keys.unwrap();
    let stale = MethodRemoval {
        id: method(4, 1).id,
        audit_key_before: keys.pepper.clone(),
        audit_key_after: keys.pepper.clone(),
    };
    assert_eq!(store.delete_unlock(stale).await.unwrap(), UnlockRemoval::Stale);
    assert_eq!(store.load_unlocks().await.unwrap().methods.len(), 2, "nothing was removed");
    assert_eq!(store.load_directory().await.unwrap().system_keys.unwrap(), keys);
}

async fn pending_method_becomes_active_once(harness: VaultHarness) {
    let store = &harness.vault.store;
    adopt_vault(&harness).await;
    let pending = UnlockRecord { state: UnlockState::Pending, ..method(2, 1) };
    store.insert_unlock(pending).await.unwrap();
    let active = UnlockRecord { mac: Mac([9; 32]), ..method(2, 1) };
    let other = UnlockRecord { wrapped: vec![8; 100], ..active.clone() };
    assert_eq!(store.activate_unlock(other).await.unwrap(), ChangeOutcome::Stale);
    assert_eq!(store.activate_unlock(active.clone()).await.unwrap(), ChangeOutcome::Done);
    assert_eq!(store.load_unlocks().await.unwrap().find(active.id), Some(&active));
}

/// The root key of tests is the vault key of the harness.
fn old_key() -> VaultKey {
    root_key().into_vault_key()
}

fn rotation(old: VaultKey, replaced: &[u128]) -> (VaultKeyRotation, VaultKey) {
    let new = VaultKey::generate(2);
    let copy = VaultKey::from_secret(2, Secret::new(new.secret().expose().to_vec()));
    let rewrap =
        Box::new(move |keys: WrappedKeys| keys.rewrap(&old, &new, Timestamp { unix_ms: 9 }));
    let replaced = replaced.iter().map(|it| UnlockId(Uuid::from_u128(*it))).collect();
    let methods = vec![method(1, 2)];
    (VaultKeyRotation { from: 1, to: 2, replaced, methods, rewrap }, copy.unwrap())
}

async fn rotation_rewraps_every_key(harness: VaultHarness) {
    let store = &harness.vault.store;
    adopt_vault(&harness).await;
    harness.default_tenant().await;
    let old = old_key();
    let (_, signing_key) = WebhookSigningKey::create(&old).unwrap();
    store.insert_webhook_signing_key(signing_key).await.unwrap();
    let (rotation, new) = rotation(old, &[1]);
    store.rotate_vault_key(rotation).await.unwrap().unwrap();
    let records = store.load_directory().await.unwrap();
    assert_eq!(records.unlocks.key_version(), 2);
    assert_eq!(records.unlocks.methods, [method(1, 2)]);
    let tenants = records.tenants.len();
    let directory = Directory::open(records.clone(), &new, None).unwrap();
    assert_eq!((directory.tenants().len(), directory.alterations()), (tenants, [].as_slice()));
    assert!(Directory::open(records, &old_key(), None).is_err());
    let signing_key = store.find_webhook_signing_key().await.unwrap().unwrap();
    assert!(WebhookSigningKey::unwrap(&new, &signing_key).is_ok());
}

async fn rotation_of_changed_methods_is_a_conflict(harness: VaultHarness) {
    let store = &harness.vault.store;
    adopt_vault(&harness).await;
    let before = store.load_directory().await.unwrap();
    store.insert_unlock(method(2, 1)).await.unwrap();
    let (rotation, _) = rotation(old_key(), &[1]);
    let result = store.rotate_vault_key(rotation).await.unwrap();
    assert!(matches!(result, Err(Error::Conflict { .. })));
    let after = store.load_directory().await.unwrap();
    assert_eq!(after.system_keys, before.system_keys);
    assert_eq!(after.unlocks.methods, [method(1, 1), method(2, 1)]);
}

async fn key_of_an_earlier_vault_key_is_not_inserted(harness: VaultHarness) {
    let store = &harness.vault.store;
    adopt_vault(&harness).await;
    let (rotation, _) = rotation(old_key(), &[1]);
    store.rotate_vault_key(rotation).await.unwrap().unwrap();
    let (_, signing_key) = WebhookSigningKey::create(&old_key()).unwrap();
    assert!(store.insert_webhook_signing_key(signing_key).await.is_err());
    assert!(store.find_webhook_signing_key().await.unwrap().is_none());
}
